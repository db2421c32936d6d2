import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { exactText, planSync } from './sync-folder.ts'
import { walkProject } from './walk.ts'

describe('the files of a folder', () => {
  let root: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'platen-walk-'))
  })
  afterEach(() => rm(root, { recursive: true }))
  const write = async (files: Record<string, string | Buffer>) => {
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), content)
    }
  }
  const paths = async (excluded: string[] = []) => (await walkProject(root, excluded)).files.map((file) => file.path)

  it('are those an author wrote, sorted', async () => {
    await write({
      'main.tex': 'x',
      'b/c.tex': 'x',
      'fig.pdf': 'x',
      'main.bbl': 'x',
      'refs.bib': 'x',
      '.latexmkrc': 'x',
    })
    expect(await paths()).toEqual(['.latexmkrc', 'b/c.tex', 'fig.pdf', 'main.bbl', 'main.tex', 'refs.bib'])
  })

  it('are not what tools leave', async () => {
    await write({
      'main.tex': 'x',
      'main.pdf': 'x',
      'main.aux': 'x',
      'main.synctex.gz': 'x',
      'main.fdb_latexmk': 'x',
      'chapters/one.aux': 'x',
      '.git/HEAD': 'x',
      'node_modules/a/b.js': 'x',
      '.DS_Store': 'x',
      '__MACOSX/._main.tex': 'x',
      'out.pdf': 'x',
    })
    expect(await paths([join(root, 'out.pdf')])).toEqual(['main.tex'])
  })

  it('are not what .platenignore names', async () => {
    await write({
      '.platenignore': '# comment\ndrafts/\n*.bak\n/top.tex\n',
      'drafts/a.tex': 'x',
      'a.bak': 'x',
      'b/c.bak': 'x',
      'top.tex': 'x',
      'b/top.tex': 'x',
    })
    expect(await paths()).toEqual(['b/top.tex'])
  })

  it('are never outside of it, and what is left out is said', async () => {
    await write({ 'main.tex': 'x', 'real.tex': 'x' })
    await symlink('/etc/hostname', join(root, 'host.txt'))
    await symlink('real.tex', join(root, 'inside.tex'))
    await symlink('gone.tex', join(root, 'broken.tex'))
    const walk = await walkProject(root)
    expect(walk.files.map((file) => file.path)).toEqual(['inside.tex', 'main.tex', 'real.tex'])
    expect(walk.remarks).toEqual([expect.stringContaining('broken.tex'), expect.stringContaining('host.txt')].sort())
  })

  it('have composed names', async () => {
    await write({ 'u\u0308.tex': 'x' })
    expect(await paths()).toEqual(['\u00fc.tex'])
  })

  it('are sent only where they differ, and removed where they are gone', async () => {
    await write({ 'same.tex': 'x', 'changed.tex': 'new', 'added.tex': 'x' })
    const sha256 = '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881'
    const file = (path: string, digest: string) => ({
      path,
      kind: 'DOCUMENT' as const,
      byteLength: '1',
      sha256: digest,
    })
    const project = {
      id: '1',
      name: 'x',
      type: 'LATEX' as const,
      files: [file('same.tex', sha256), file('changed.tex', sha256), file('gone.tex', sha256)],
    }
    const plan = await planSync(project, (await walkProject(root)).files)
    expect(plan.upload.map((each) => each.path)).toEqual(['added.tex', 'changed.tex'])
    expect(plan).toMatchObject({ remove: ['gone.tex'], unchanged: 1 })
  })
})

describe('a document', () => {
  it.each(['', 'x', '\ufeffx', 'a\r\nb\rc', 'ü😀'])('is %j, byte for byte', (text) => {
    expect(exactText(Buffer.from(text))).toBe(text)
  })

  it.each([
    Buffer.from([0xff, 0xfe]),
    Buffer.from('a\u0000b'),
    Buffer.from([0xed, 0xa0, 0x80]),
    Buffer.from('caf\xe9', 'latin1'),
  ])('is not bytes that would come back changed: %j', (bytes) => expect(exactText(bytes)).toBeNull())
})
