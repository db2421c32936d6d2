import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Removes directories of workers that died without doing so; their names begin with their process's id. */
export async function removeLeftOvers(temporaryDirectory: string): Promise<void> {
  for (const name of await readdir(temporaryDirectory)) {
    const pid = Number(/^platen-(\d+)-\w+/.exec(name)?.[1])
    if (pid && pid !== process.pid && !isAlive(pid)) {
      await rm(join(temporaryDirectory, name), { recursive: true, force: true }).catch(() => {})
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
