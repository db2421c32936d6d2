import { posix } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'

const largest = 128 * 1024 * 1024

/**
 * Makes the names in a SyncTeX file those of the project, so that editors find their sources and no path of the worker
 * is told.
 *
 * @returns the rewritten file, or null if it is not one
 */
export function rewriteSynctex(compressed: Buffer, projectPath: string): Buffer | null {
  let text: string
  try {
    text = gunzipSync(compressed, { maxOutputLength: largest }).toString('latin1')
  } catch {
    return null
  }
  const rewritten = text.replaceAll(/^Input:(\d+):(.+)$/gm, (whole, tag: string, name: string) => {
    if (!name.startsWith(`${projectPath}/`)) return whole
    return `Input:${tag}:${posix.normalize(name.slice(projectPath.length + 1))}`
  })
  return gzipSync(Buffer.from(rewritten, 'latin1'), { level: 6 })
}
