import { z } from 'zod'
import { sha256 } from './messages.ts'
import { latexEngines } from './words.ts'

/** One file of a `project-bundle/v1`. */
export const manifestFile = z.strictObject({
  /** Project-relative, `/`-separated, NFC, no `.` or `..` segments. */
  path: z.string().min(1).max(1024),
  kind: z.enum(['document', 'asset']),
  byte_length: z.int().min(0),
  sha256,
})
export type ManifestFile = z.infer<typeof manifestFile>

/**
 * `manifest.json`, the first entry of a `project-bundle/v1` archive. The files follow under `files/`, in the
 * manifest's order (by path, in UTF-16 code units).
 */
export const projectManifest = z.strictObject({
  schema: z.literal('project-bundle/v1'),
  project_type: z.enum(['LATEX', 'TYPST']),
  /** Null lets the processor detect the entry. */
  entry_path: z.string().nullable(),
  /** Settings of the project that this operation reads. */
  settings: z.strictObject({ engine: z.enum(latexEngines).nullable() }),
  /** Version of the workspace's own rules for trees and settings. */
  workspace_version: z.literal(1),
  /** Counts accepted changes of the project's content. */
  content_generation: z.int().min(0),
  /** Seconds since 1970 that a processor uses as its clock, so that equal input gives equal output. */
  source_epoch: z.int().min(0).nullable(),
  files: z.array(manifestFile).max(20_000),
})
export type ProjectManifest = z.infer<typeof projectManifest>
