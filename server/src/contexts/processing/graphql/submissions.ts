import { z } from 'zod'
import { builder } from '../../../graphql/builder.ts'
import { idempotencyKey, parseInput } from '../../../graphql/input.ts'
import { IdempotencyConflictError, QuotaExceededError, ValidationError } from '../../../platform/errors.ts'
import { LatexEngineEnum, ProjectNode } from '../../workspace/graphql/project.ts'
import { OperationUnavailableError, ProjectTypeMismatchError, type VisibleJob } from '../index.ts'
import { JobNode, OnErrorEnum } from './job.ts'
import { watchJob } from './watch-job.ts'

const LatexBuildInput = builder.inputType('LatexBuildInput', {
  description: 'Options of a LaTeX build.',
  fields: (t) => ({
    engine: t.field({ type: LatexEngineEnum, description: "In place of the document's or the project's." }),
    entryPath: t.string({ description: "File to start from, in place of the project's or the one that is found." }),
    onError: t.field({
      type: OnErrorEnum,
      required: true,
      defaultValue: 'fail',
      description: 'What becomes of a document with errors.',
    }),
  }),
})
const BuildProjectInput = builder.inputType('BuildProjectInput', {
  description: 'A build of a project as it is at this moment.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    idempotencyKey: t.string({
      required: true,
      description: 'Your own id of this command; the same again gives the same job.',
    }),
    latex: t.field({ type: LatexBuildInput, description: 'Options of a LaTeX build.' }),
  }),
})
const BuildProjectPayload = builder.objectRef<{ job: VisibleJob; replayed: boolean }>('BuildProjectPayload').implement({
  description: 'The job.',
  fields: (t) => ({
    job: t.field({
      type: JobNode,
      description: 'The new job, or the one this key created before.',
      resolve: (payload) => payload.job,
    }),
    replayed: t.exposeBoolean('replayed', { description: 'Whether an earlier command with this key had created it.' }),
  }),
})

const CancelJobInput = builder.inputType('CancelJobInput', {
  description: 'A job to stop.',
  fields: (t) => ({ jobId: t.globalID({ required: true, for: JobNode, description: 'The job.' }) }),
})
const CancelJobPayload = builder.objectRef<{ job: VisibleJob }>('CancelJobPayload').implement({
  description: 'The job after the request.',
  fields: (t) => ({
    job: t.field({
      type: JobNode,
      description:
        'As it is now: cancelled, still running with `cancelRequested`, or past the point where it can be stopped.',
      resolve: (payload) => payload.job,
    }),
  }),
})

builder.mutationFields((t) => ({
  buildProject: t.field({
    type: BuildProjectPayload,
    nullable: true,
    description:
      'Captures the project as it is and queues a build of it. The job goes on whatever becomes of the caller.',
    errors: {
      types: [
        ValidationError,
        IdempotencyConflictError,
        QuotaExceededError,
        OperationUnavailableError,
        ProjectTypeMismatchError,
      ],
      union: { name: 'BuildProjectResult', description: 'What came of it.' },
    },
    args: { input: t.arg({ type: BuildProjectInput, required: true, description: 'The build.' }) },
    resolve: async (_root, { input }, { processing, viewer }) => {
      const { idempotencyKey: key } = parseInput(z.object({ idempotencyKey }), { idempotencyKey: input.idempotencyKey })
      const { engine = null, entryPath = null, onError = 'fail' } = input.latex ?? {}
      const { job, replayed } = await processing.buildProject(viewer.id, {
        projectId: input.projectId.id,
        idempotencyKey: key,
        latex: { engine, entry_path: entryPath, on_error: onError },
      })
      // Whoever may submit to a project sees its jobs.
      return { job: { ...job, restricted: false }, replayed }
    },
  }),
  cancelJob: t.field({
    type: CancelJobPayload,
    nullable: true,
    description: 'Asks a job to stop. A result that was accepted before is published all the same.',
    errors: { types: [ValidationError], union: { name: 'CancelJobResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: CancelJobInput, required: true, description: 'The job.' }) },
    resolve: async (_root, { input }, { loaders, processing, viewer }) => {
      const job = await processing.cancelJob(viewer.id, input.jobId.id)
      return { job: (await loaders.job.load(job.id)) as VisibleJob }
    },
  }),
}))

builder.subscriptionField('job', (t) =>
  t.field({
    type: JobNode,
    description:
      'A job, now and at each change, until it ends. States that a slow client missed are not made up for; the newest always comes.',
    args: { id: t.arg.globalID({ required: true, for: JobNode, description: 'Global id of a job.' }) },
    subscribe: (_root, { id }, { processing, viewer }) => watchJob(processing, viewer.id, id.id),
    resolve: (job) => job as VisibleJob,
  }),
)
