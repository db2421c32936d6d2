import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { encodeManifest, type ProjectManifest } from '@platen/worker/protocol'
import { pack } from 'tar-stream'
import type { SnapshotDescriptor } from '../../workspace/index.ts'

type File = SnapshotDescriptor['files'][number]
type Content = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/**
 * The bytes of a `project-bundle/v1`: order, mode, owner and time are fixed, so that equal content gives equal bytes.
 *
 * @throws {Error} what `content` throws, or that it is not what the file's length and digest say
 */
export async function* packBundle(
  manifest: ProjectManifest,
  files: readonly File[],
  content: (file: File) => Content,
): AsyncGenerator<Uint8Array> {
  const archive = pack()
  const write = async (name: string, size: number, chunks: Content) => {
    const written = Promise.withResolvers<void>()
    const header = { name, size, mode: 0o644, mtime: new Date(0), uid: 0, gid: 0, uname: '', gname: '' }
    const entry = archive.entry(header, (error) => (error ? written.reject(error) : written.resolve()))
    // Whoever destroys the archive destroys its entry, at any moment. The loop below may then be elsewhere, and an error
    // that nobody listens to ends the process.
    entry.on('error', () => {})
    written.promise.catch(() => {})
    for await (const chunk of chunks) {
      if (!entry.write(chunk)) await Promise.race([once(entry, 'drain'), written.promise])
    }
    entry.end(null)
    await written.promise
  }
  const fill = async () => {
    const head = encodeManifest(manifest)
    await write('manifest.json', head.length, [head])
    for (const file of files) await write(`files/${file.path}`, file.byteLength, verified(file, content(file)))
    archive.finalize()
  }
  fill().catch((error: Error) => archive.destroy(error))
  for await (const chunk of archive) yield chunk as Uint8Array
}

/** A manifest that lies about its content must never leave Core. */
async function* verified(file: File, content: Content): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let byteLength = 0
  for await (const chunk of content) {
    hash.update(chunk)
    byteLength += chunk.length
    yield chunk
  }
  if (byteLength !== file.byteLength || hash.digest('hex') !== file.sha256)
    throw new Error('a frozen file is not what its digest says')
}
