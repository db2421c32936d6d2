import { z } from 'zod'
import { builder, closedEnum } from '../../../graphql/builder.ts'
import { ProjectNode } from '../../workspace/graphql/project.ts'
import type { Capability } from '../index.ts'

const CapabilityStateEnum = closedEnum<'available' | 'waiting'>('CapabilityState', 'Whether an operation runs now.', {
  available: 'A worker serves it.',
  waiting: 'No worker serves it now; jobs are accepted and wait.',
})

/** What processors tell of their toolchain; what a processor does not tell is left out. */
const facts = z.object({
  engines: z.array(z.string()).catch([]),
  distribution: z.string().nullable().catch(null),
  packages: z.array(z.string()).catch([]),
  fonts: z.array(z.string()).catch([]),
})

type LiveProcessor = Capability['processors'][number]
const ProcessorFactsType = builder.objectRef<LiveProcessor & z.infer<typeof facts>>('ProcessorFacts').implement({
  description: 'A processor that serves an operation now, and what its toolchain offers.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'Its name.' }),
    version: t.exposeString('version', { description: 'Its version.' }),
    contract: t.field({
      type: 'Sha256',
      description: 'Equal contracts give equal results.',
      resolve: (processor) => processor.contract,
    }),
    engines: t.exposeStringList('engines', { description: 'Engines it found.' }),
    distribution: t.exposeString('distribution', { nullable: true, description: 'The toolchain, with its year.' }),
    packages: t.exposeStringList('packages', { description: 'Packages it found.' }),
    fonts: t.exposeStringList('fonts', { description: 'Font families it found.' }),
  }),
})

const CapabilityType = builder.objectRef<Capability>('Capability').implement({
  description: 'An operation that this deployment offers.',
  fields: (t) => ({
    operation: t.exposeString('operation', { description: 'Its name, such as `latex.compile.pdf/v1`.' }),
    state: t.field({
      type: CapabilityStateEnum,
      description: 'Whether it runs now.',
      resolve: (capability) => (capability.available ? 'available' : 'waiting'),
    }),
    processors: t.field({
      type: [ProcessorFactsType],
      description: 'Who serves it now.',
      resolve: (capability) =>
        capability.processors.map((processor) => ({ ...processor, ...facts.parse(processor.facts) })),
    }),
  }),
})

builder.queryField('capabilities', (t) =>
  t.field({
    type: [CapabilityType],
    description: 'What this deployment can do. An operation that is not here does not exist in it.',
    resolve: async (_root, _args, { processing }) => [...(await processing.jobs.capabilities())],
  }),
)

builder.objectField(ProjectNode, 'capabilities', (t) =>
  t.field({
    type: [CapabilityType],
    description: 'What can be done with this project.',
    resolve: async (project, _args, { processing }) => {
      const prefix = project.type === 'LATEX' ? 'latex.' : 'typst.'
      return (await processing.jobs.capabilities()).filter((capability) => capability.operation.startsWith(prefix))
    },
  }),
)
