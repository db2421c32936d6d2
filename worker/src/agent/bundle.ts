import { createHash, type Hash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract } from 'tar-stream'
import {
  type Claim,
  encodeManifest,
  inputDigest,
  type ManifestFile,
  type ProjectManifest,
  projectManifest,
  treeProblem,
} from '../protocol/index.ts'
import { CoreUnavailable } from './core-errors.ts'

const largestManifestBytes = 32 * 1024 * 1024

type Archive = ReturnType<typeof extract>
type Entry = Archive extends AsyncIterable<infer E> ? E : never

/** The archive is not what a `project-bundle/v1` may be, or not what the claim names. */
export class BundleError extends Error {
  override name = 'BundleError' as const
}

/**
 * Unpacks a `project-bundle/v1` while it comes. Nothing is taken on trust: length and digest of the archive, spelling and
 * digest of the manifest, and each file's name, order, length and digest are compared.
 *
 * @param directory empty; holds exactly the manifest's files afterwards
 * @throws {BundleError} for an archive that will never be right
 * @throws {CoreUnavailable} for a transfer that broke off
 */
export async function unpackBundle(
  source: AsyncIterable<Uint8Array>,
  input: Claim['input'],
  directory: string,
): Promise<ProjectManifest> {
  const archive = extract()
  const counted = new CountedBytes(input)
  const feeding = pipeline(Readable.from(counted.through(source)), archive)
  // Told by the loop below; without a listener it would be told twice.
  feeding.catch(() => {})
  try {
    const manifest = await unpackEntries(archive, input, directory)
    await feeding
    return manifest
  } catch (error) {
    archive.destroy()
    if (!(error instanceof BundleError) && counted.brokenOff)
      throw new CoreUnavailable('the input broke off', { cause: error })
    throw error
  }
}

async function unpackEntries(
  archive: AsyncIterable<Entry>,
  input: Claim['input'],
  directory: string,
): Promise<ProjectManifest> {
  let manifest: ProjectManifest | null = null
  let next = 0
  for await (const entry of archive) {
    if (entry.header.type !== 'file')
      throw new BundleError(`the archive has a ${entry.header.type} named ${quoted(entry.header.name)}`)
    if (manifest === null) {
      manifest = readManifest(entry.header.name, await collect(entry), input)
      continue
    }
    const file = manifest.files[next]
    if (!file) throw new BundleError(`the archive has more than its manifest: ${quoted(entry.header.name)}`)
    await unpackFile(entry, file, directory)
    next += 1
  }
  if (manifest === null) throw new BundleError('the archive is empty')
  if (next < manifest.files.length)
    throw new BundleError(`the archive lacks ${quoted(manifest.files[next]?.path ?? '')}`)
  return manifest
}

function readManifest(name: string, bytes: Buffer, input: Claim['input']): ProjectManifest {
  if (name !== 'manifest.json')
    throw new BundleError(`the archive begins with ${quoted(name)} and not with manifest.json`)
  const manifest = parsed(bytes)
  if (!bytes.equals(encodeManifest(manifest))) throw new BundleError('the manifest is not canonical JSON')
  const problem = treeProblem(manifest.files.map((file) => file.path))
  if (problem !== null) throw new BundleError(`the manifest is unsound: ${problem}`)
  if (inputDigest(manifest) !== input.input_digest) throw new BundleError('the manifest is not the one the claim names')
  return manifest
}

function parsed(bytes: Buffer): ProjectManifest {
  try {
    return projectManifest.parse(JSON.parse(bytes.toString('utf8')))
  } catch (cause) {
    throw new BundleError('the manifest does not follow its schema', { cause })
  }
}

async function collect(entry: Entry): Promise<Buffer> {
  if ((entry.header.size ?? 0) > largestManifestBytes) throw new BundleError('the manifest is too large')
  const parts: Buffer[] = []
  for await (const part of entry) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

async function unpackFile(entry: Entry, file: ManifestFile, directory: string): Promise<void> {
  if (entry.header.name !== `files/${file.path}`) {
    throw new BundleError(`the archive has ${quoted(entry.header.name)} where the manifest has ${quoted(file.path)}`)
  }
  if (entry.header.size !== file.byte_length)
    throw new BundleError(`${quoted(file.path)} has another length than the manifest says`)
  const path = join(directory, file.path)
  await mkdir(dirname(path), { recursive: true })
  const hash = createHash('sha256')
  await pipeline(hashed(entry, hash), createWriteStream(path, { flags: 'wx', mode: 0o644 }))
  if (hash.digest('hex') !== file.sha256)
    throw new BundleError(`${quoted(file.path)} has another digest than the manifest says`)
}

async function* hashed(source: AsyncIterable<unknown>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    hash.update(chunk as Buffer)
    yield chunk as Buffer
  }
}

/** Counts and digests the archive as it passes. */
class CountedBytes {
  readonly #expected: Claim['input']
  /** Whether fewer bytes came than the claim names. */
  brokenOff = true

  constructor(expected: Claim['input']) {
    this.#expected = expected
  }

  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { byte_length, sha256 } = this.#expected
    const hash = createHash('sha256')
    let count = 0
    for await (const chunk of source) {
      count += chunk.length
      hash.update(chunk)
      if (count >= byte_length) this.brokenOff = false
      if (count > byte_length) throw new BundleError('the archive is longer than the claim says')
      yield chunk
    }
    if (count < byte_length) throw new Error('fewer bytes came than the claim names')
    if (hash.digest('hex') !== sha256) throw new BundleError('the archive has another digest than the claim says')
  }
}

const quoted = (text: string): string => JSON.stringify(text.slice(0, 200))
