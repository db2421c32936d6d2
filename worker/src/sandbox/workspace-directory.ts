import { chmod, lchown, mkdir, mkdtemp, opendir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Slots } from './slots.ts'

/**
 * Takes a slot and makes its directory; what fails gives the slot back.
 *
 * @param uidOf the user that programs of a slot run as, or null for our own
 */
export async function takeWorkspace(
  slots: Slots,
  parent: string,
  uidOf: (slot: number) => number | null,
): Promise<{ readonly directory: WorkspaceDirectory; readonly uid: number | null; release(): Promise<void> }> {
  const slot = slots.take()
  const uid = uidOf(slot)
  try {
    const directory = await makeWorkspaceDirectory(parent, uid)
    const release = async () => {
      await directory.remove()
      slots.give(slot)
    }
    return { directory, uid, release }
  } catch (error) {
    slots.give(slot)
    throw error
  }
}

/** Host side of one workspace. */
interface WorkspaceDirectory {
  readonly root: string
  readonly project: string
  readonly state: string
  /** Gives all of it, writable, to the user that programs run as. */
  handOver(): Promise<void>
  remove(): Promise<void>
}

/** @param uid of the user that programs run as, or null for our own */
async function makeWorkspaceDirectory(parent: string, uid: number | null): Promise<WorkspaceDirectory> {
  const root = await mkdtemp(join(parent, `platen-${process.pid}-`))
  const project = join(root, 'project')
  const state = join(root, 'state')
  await Promise.all([mkdir(project), mkdir(state)])
  return {
    root,
    project,
    state,
    handOver: () => giveTree(root, uid),
    remove: () => rm(root, { recursive: true, force: true, maxRetries: 3 }),
  }
}

/** What was copied in may be read-only, and belongs to us. */
async function giveTree(path: string, uid: number | null): Promise<void> {
  await chmod(path, 0o700)
  if (uid !== null) await lchown(path, uid, uid)
  for await (const entry of await opendir(path)) {
    const inner = join(path, entry.name)
    if (entry.isDirectory()) {
      await giveTree(inner, uid)
      continue
    }
    if (entry.isFile()) await chmod(inner, 0o600)
    if (uid !== null) await lchown(inner, uid, uid)
  }
}
