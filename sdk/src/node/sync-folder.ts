import { createHash } from 'node:crypto'
import { createReadStream, openAsBlob } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Platen } from '../client.ts'
import type { Project } from '../types.ts'
import type { LocalFile } from './walk.ts'

/** A document larger than this travels as an asset. */
const largestDocumentBytes = 1024 * 1024
const concurrent = 6

export interface SyncPlan {
  readonly upload: readonly (LocalFile & { readonly sha256: string })[]
  readonly remove: readonly string[]
  readonly unchanged: number
}

/** What it takes to make the project's files those of the folder: only what differs by digest. */
export async function planSync(project: Project, files: readonly LocalFile[]): Promise<SyncPlan> {
  const there = new Map(project.files.map((file) => [file.path, file.sha256]))
  const digested = await inParallel(files, async (file) => ({ ...file, sha256: await digestOf(file.source) }))
  const upload = digested.filter((file) => there.get(file.path) !== file.sha256)
  const here = new Set(files.map((file) => file.path))
  return {
    upload,
    remove: [...there.keys()].filter((path) => !here.has(path)),
    unchanged: files.length - upload.length,
  }
}

/** @param onFile told after each file that was sent */
export async function applySync(
  platen: Platen,
  projectId: string,
  plan: SyncPlan,
  { signal, onFile }: { readonly signal?: AbortSignal; readonly onFile?: () => void } = {},
): Promise<void> {
  const options = signal ? { signal } : {}
  // First out of the way: a folder may take the name of a file that is gone.
  for (const path of plan.remove) await platen.deleteFile(projectId, path, options)
  await inParallel(plan.upload, async (file) => {
    const text = file.byteLength <= largestDocumentBytes ? exactText(await readFile(file.source)) : null
    if (text !== null) await platen.writeDocument(projectId, file.path, text, options)
    else {
      const { byteLength, sha256 } = file
      await platen.writeAsset(
        projectId,
        file.path,
        { body: await openAsBlob(file.source), byteLength, sha256 },
        options,
      )
    }
    onFile?.()
  })
}

/** The text of bytes that are exactly this text's, or null: what would come back changed is not a document. */
export function exactText(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return Buffer.from(text, 'utf8').equals(bytes) ? text : null
  } catch {
    return null
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}

async function inParallel<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const lane = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index] as T)
  }
  await Promise.all(Array.from({ length: Math.min(concurrent, items.length) }, lane))
  return results
}
