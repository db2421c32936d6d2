import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
// A FIFO would hold an opener without O_NONBLOCK for ever.
const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * Opens a plain file below a directory that a hostile program wrote: step by step through the descriptors of its
 * folders, so that no link at any place is followed, and neither a device nor a second name of another file is taken.
 *
 * @returns null for anything but a plain file of at most `maxBytes`
 */
export async function openResult(root: string, path: string, maxBytes: number): Promise<FileHandle | null> {
  const segments = path.split('/')
  const name = segments.pop()
  if (!name || [...segments, name].some((segment) => segment === '' || segment === '.' || segment === '..')) return null
  let directory = await open(root, directoryFlags)
  try {
    for (const segment of segments) {
      const inner = await open(`/proc/self/fd/${directory.fd}/${segment}`, directoryFlags)
      await directory.close()
      directory = inner
    }
    return await plainFile(`/proc/self/fd/${directory.fd}/${name}`, maxBytes)
  } catch {
    return null
  } finally {
    await directory.close()
  }
}

async function plainFile(path: string, maxBytes: number): Promise<FileHandle | null> {
  const file = await open(path, fileFlags)
  const { nlink, size } = await file.stat()
  if ((await file.stat()).isFile() && nlink === 1 && size <= maxBytes) return file
  await file.close()
  return null
}
