import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Header, pack } from 'tar-stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodeManifest, inputDigest, type ProjectManifest } from '../protocol/index.ts'
import { BundleError, unpackBundle } from './bundle.ts'
import { CoreUnavailable } from './core-errors.ts'

type Files = Readonly<Record<string, string>>
interface TarEntry extends Pick<Header, 'name'>, Partial<Pick<Header, 'type' | 'linkname'>> {
  readonly content: string | Buffer
}
const sha256 = (content: string | Buffer) => createHash('sha256').update(content).digest('hex')

const manifestOf = (files: Files): ProjectManifest => ({
  schema: 'project-bundle/v1',
  project_type: 'LATEX',
  entry_path: null,
  settings: { engine: null },
  workspace_version: 1,
  content_generation: 1,
  source_epoch: null,
  files: Object.entries(files)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, content]) => ({
      path,
      kind: 'document',
      byte_length: Buffer.byteLength(content),
      sha256: sha256(content),
    })),
})

async function archive(entries: readonly TarEntry[]): Promise<Buffer> {
  const tar = pack()
  for (const { content, ...header } of entries) tar.entry(header, content as string)
  tar.finalize()
  const parts: Buffer[] = []
  for await (const part of tar) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

/** Entries of a right bundle; a test spoils what it is about. */
function entriesOf(files: Files, manifest = manifestOf(files)): TarEntry[] {
  return [
    { name: 'manifest.json', content: encodeManifest(manifest) },
    ...manifest.files.map(({ path }) => ({ name: `files/${path}`, content: files[path] ?? '' })),
  ]
}

async function* inPieces(bytes: Buffer, size = 700): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

describe('a project bundle', () => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'platen-bundle-test-'))
  })
  afterEach(() => rm(directory, { recursive: true }))

  const unpack = (bytes: Buffer, manifest: ProjectManifest, more: object = {}) => {
    const input = {
      ticket: '/x',
      byte_length: bytes.length,
      sha256: sha256(bytes),
      input_digest: inputDigest(manifest),
      ...more,
    }
    return unpackBundle(inPieces(bytes), input, directory)
  }
  const unpacked = async (): Promise<Files> => {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true })
    const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
    return Object.fromEntries(
      await Promise.all(
        files.map(async (path) => [path.slice(directory.length + 1), await readFile(path, 'utf8')] as const),
      ),
    )
  }

  it('becomes exactly the files of its manifest', async () => {
    const files = { 'main.tex': 'x', 'deep/er/ü 1.tex': 'two', 'empty.txt': '' }
    expect(await unpack(await archive(entriesOf(files)), manifestOf(files))).toEqual(manifestOf(files))
    expect(await unpacked()).toEqual(files)
  })

  it('becomes its files whatever they are and however the stream is cut', async () => {
    const segment = fc
      .stringMatching(/^[a-zäß0-9 _-]{1,8}$/)
      .filter((name) => name.trim() === name && name.normalize('NFC') === name)
    const tree = fc.dictionary(
      fc.tuple(segment, segment).map(([folder, name]) => `${folder}/${name}.tex`),
      fc.string({ unit: 'grapheme' }),
      { maxKeys: 6 },
    )
    await fc.assert(
      fc.asyncProperty(tree, fc.integer({ min: 1, max: 2000 }), async (files, size) => {
        const target = await mkdtemp(join(directory, 'run-'))
        const bytes = await archive(entriesOf(files))
        const input = {
          ticket: '/x',
          byte_length: bytes.length,
          sha256: sha256(bytes),
          input_digest: inputDigest(manifestOf(files)),
        }
        const manifest = await unpackBundle(inPieces(bytes, size), input, target)
        for (const { path } of manifest.files) expect(await readFile(join(target, path), 'utf8')).toBe(files[path])
      }),
      { numRuns: 25 },
    )
  })

  const files = { 'a.tex': 'one', 'b.tex': 'two' }
  const right = entriesOf(files)
  const [manifestEntry, a, b] = right as [TarEntry, TarEntry, TarEntry]
  const spoiled: readonly (readonly [what: string, entries: readonly TarEntry[]])[] = [
    ['a file that is not in the manifest', [...right, { name: 'files/c.tex', content: 'three' }]],
    ['a file that is missing', [manifestEntry, a]],
    ['files in another order', [manifestEntry, b, a]],
    ['a file twice', [manifestEntry, a, a, b]],
    ['no manifest', [a, b]],
    ['a manifest that is not first', [a, manifestEntry, b]],
    ['nothing', []],
    ['other content of the same length', [manifestEntry, { ...a, content: 'eno' }, b]],
    ['content of another length', [manifestEntry, { ...a, content: 'longer' }, b]],
    ['a name that leaves the folder', [manifestEntry, { ...a, name: 'files/../../evil' }, b]],
    ['an absolute name', [manifestEntry, { ...a, name: '/tmp/evil' }, b]],
    ['a link', [manifestEntry, { name: 'files/a.tex', type: 'symlink', linkname: '/etc/passwd', content: '' }, b]],
    ['a second name', [manifestEntry, { name: 'files/a.tex', type: 'link', linkname: 'files/b.tex', content: '' }, b]],
    ['a folder', [manifestEntry, { name: 'files/', type: 'directory', content: '' }, a, b]],
    ['a manifest with white space', [{ ...manifestEntry, content: JSON.stringify(manifestOf(files), null, 1) }, a, b]],
    ['a manifest that is no JSON', [{ ...manifestEntry, content: '{' }, a, b]],
  ]
  it.each(spoiled)('is refused with %s', async (_what, entries) => {
    await expect(unpack(await archive(entries), manifestOf(files))).rejects.toBeInstanceOf(BundleError)
  })

  const unsound: readonly (readonly [what: string, paths: readonly string[]])[] = [
    ['names above it', ['../evil']],
    ['absolute names', ['/etc/evil']],
    ['a file that is also a folder', ['a', 'a/b']],
  ]
  it.each(unsound)('is refused when its manifest has %s', async (_what, paths) => {
    const tree = Object.fromEntries(paths.map((path) => [path, 'x']))
    await expect(unpack(await archive(entriesOf(tree)), manifestOf(tree))).rejects.toBeInstanceOf(BundleError)
    expect(await unpacked()).toEqual({})
  })

  it('is refused when it is not the one the claim names', async () => {
    const bytes = await archive(right)
    for (const more of [
      { sha256: '0'.repeat(64) },
      { input_digest: '0'.repeat(64) },
      { byte_length: bytes.length - 512 },
    ]) {
      await expect(unpack(bytes, manifestOf(files), more)).rejects.toBeInstanceOf(BundleError)
      await rm(directory, { recursive: true })
      directory = await mkdtemp(join(tmpdir(), 'platen-bundle-test-'))
    }
  })

  it('that breaks off is a transfer to repeat, wherever it is cut', async () => {
    const bytes = await archive(right)
    for (const at of [0, 100, 512, 1500, bytes.length - 1]) {
      const input = {
        ticket: '/x',
        byte_length: bytes.length,
        sha256: sha256(bytes),
        input_digest: inputDigest(manifestOf(files)),
      }
      const target = await mkdtemp(join(directory, 'cut-'))
      await expect(unpackBundle(inPieces(bytes.subarray(0, at)), input, target), `at ${at}`).rejects.toBeInstanceOf(
        CoreUnavailable,
      )
    }
  })
})
