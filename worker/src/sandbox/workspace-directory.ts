import { lchown, mkdir, mkdtemp, opendir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Host side of one workspace. */
export interface WorkspaceDirectory {
  readonly root: string
  readonly project: string
  readonly state: string
  /** Gives all of it to the user that programs run as. */
  handOver(): Promise<void>
  remove(): Promise<void>
}

/** @param uid of the user that programs run as, or null for our own */
export async function makeWorkspaceDirectory(parent: string, uid: number | null): Promise<WorkspaceDirectory> {
  const root = await mkdtemp(join(parent, `platen-${process.pid}-`))
  const project = join(root, 'project')
  const state = join(root, 'state')
  await Promise.all([mkdir(project), mkdir(state)])
  return {
    root,
    project,
    state,
    handOver: async () => {
      if (uid !== null) await chownTree(root, uid)
    },
    remove: () => rm(root, { recursive: true, force: true, maxRetries: 3 }),
  }
}

async function chownTree(path: string, uid: number): Promise<void> {
  await lchown(path, uid, uid)
  for await (const entry of await opendir(path)) {
    const inner = join(path, entry.name)
    if (entry.isDirectory()) await chownTree(inner, uid)
    else await lchown(inner, uid, uid)
  }
}
