import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'

export interface DirectorySize {
  readonly bytes: number
  readonly files: number
}

/** What lies below a directory, without following links; stops early once it is past either bound. */
export async function measureDirectory(root: string, bound: DirectorySize): Promise<DirectorySize> {
  let bytes = 0
  let files = 0
  const rest = [root]
  for (let path = rest.pop(); path !== undefined; path = rest.pop()) {
    try {
      for await (const entry of await opendir(path)) {
        files += 1
        const inner = join(path, entry.name)
        if (entry.isDirectory()) rest.push(inner)
        else bytes += (await lstat(inner)).blocks * 512
        if (bytes > bound.bytes || files > bound.files) return { bytes, files }
      }
    } catch {
      // Removed, or made unreadable, while we looked: the next look counts what is there then.
    }
  }
  return { bytes, files }
}
