import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { encodeManifest, inputDigest } from './input-digest.ts'
import { type ProjectManifest, projectManifest } from './manifest.ts'

const sha256 = (content: string) => createHash('sha256').update(content).digest()

const manifest: ProjectManifest = {
  schema: 'project-bundle/v1',
  project_type: 'LATEX',
  entry_path: 'main.tex',
  settings: { engine: null },
  workspace_version: 1,
  content_generation: 3,
  source_epoch: null,
  files: [
    { path: 'figure.png', kind: 'asset', byte_length: 2, sha256: sha256('ab').toString('hex') },
    { path: 'main.tex', kind: 'document', byte_length: 1, sha256: sha256('c').toString('hex') },
  ],
}

test('hashes the schema name, the canonical manifest and the raw digest of each file', () => {
  const canonical = `{"content_generation":3,"entry_path":"main.tex","files":[${manifest.files
    .map((f) => `{"byte_length":${f.byte_length},"kind":"${f.kind}","path":"${f.path}","sha256":"${f.sha256}"}`)
    .join(
      ',',
    )}],"project_type":"LATEX","schema":"project-bundle/v1","settings":{"engine":null},"source_epoch":null,"workspace_version":1}`
  expect(encodeManifest(manifest).toString()).toBe(canonical)
  const bytes = Buffer.concat([Buffer.from(`project-bundle/v1\n${canonical}\n`), sha256('ab'), sha256('c')])
  expect(inputDigest(manifest)).toBe(createHash('sha256').update(bytes).digest('hex'))
})

test('does not depend on how the manifest was spelt before it was read', () => {
  const shuffled = projectManifest.parse(
    JSON.parse(JSON.stringify(Object.fromEntries(Object.entries(manifest).reverse()))),
  )
  expect(inputDigest(shuffled)).toBe(inputDigest(manifest))
})

test.each<[string, Partial<ProjectManifest>]>([
  ['the entry', { entry_path: null }],
  ['the generation', { content_generation: 4 }],
  ['the settings', { settings: { engine: 'xelatex' } }],
  ['the epoch', { source_epoch: 0 }],
  ['a file', { files: manifest.files.slice(1) }],
])('changes with %s', (_name, change) => {
  expect(inputDigest({ ...manifest, ...change })).not.toBe(inputDigest(manifest))
})
