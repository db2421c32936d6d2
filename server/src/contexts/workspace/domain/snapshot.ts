import { latexEngines } from '@platen/worker/protocol'
import { z } from 'zod'

export const projectTypes = ['LATEX', 'TYPST'] as const
export type ProjectType = (typeof projectTypes)[number]

/** A frozen project: what a capture saw under the fence, by digest. */
export const snapshotDescriptor = z.strictObject({
  projectType: z.enum(projectTypes),
  engine: z.enum(latexEngines).nullable(),
  entryPath: z.string().nullable(),
  sourceEpoch: z.int().nullable(),
  generation: z.int(),
  /** Sorted by path, in UTF-16 code units. */
  files: z.array(
    z.strictObject({ path: z.string(), kind: z.enum(['document', 'asset']), byteLength: z.int(), sha256: z.string() }),
  ),
})
export type SnapshotDescriptor = z.infer<typeof snapshotDescriptor>
