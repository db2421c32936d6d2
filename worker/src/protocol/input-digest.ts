import { createHash } from 'node:crypto'
import { canonicalJson } from './canonical-json.ts'
import type { ProjectManifest } from './manifest.ts'

/**
 * The bytes of `manifest.json` in a `project-bundle/v1` archive: canonical JSON, so that equal content gives equal
 * archives. Workers refuse any other spelling.
 */
export function encodeManifest(manifest: ProjectManifest): Buffer {
  return Buffer.from(canonicalJson(manifest))
}

/**
 * What a job means, whatever the framing of its archive: SHA-256 over the schema's name and a line feed, the canonical
 * manifest and a line feed, then the 32 raw bytes of each file's SHA-256 in the manifest's order.
 *
 * @remarks It speaks for the content only as far as the caller has compared each file with its digest in the manifest.
 * @returns lower-case hexadecimal
 */
export function inputDigest(manifest: ProjectManifest): string {
  const hash = createHash('sha256').update('project-bundle/v1\n').update(canonicalJson(manifest)).update('\n')
  for (const file of manifest.files) hash.update(file.sha256, 'hex')
  return hash.digest('hex')
}
