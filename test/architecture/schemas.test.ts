import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot, trackedFiles } from '../support/repository.ts'
import { sqlTexts } from '../support/sql-texts.ts'

/** Every schema, taken from where it is made, so that a new one is covered at once. */
const schemas = trackedFiles('migrations/*.sql').flatMap((file) =>
  [...readFileSync(join(repositoryRoot, file), 'utf8').matchAll(/^CREATE SCHEMA (\w+)/gm)].map(
    (match) => match[1] ?? '',
  ),
)

/** The one schema that statements in this file may name; undefined if they may name none. */
function ownSchema(file: string): string | undefined {
  if (file.startsWith('server/src/platform/blobs/')) return 'blob'
  return /^server\/src\/contexts\/([^/]+)\//.exec(file)?.[1]
}

function foreignNames(file: string, source: string): string[] {
  const qualified = new RegExp(`\\b(${schemas.join('|')})\\.\\w+`, 'g')
  return sqlTexts(source).flatMap(({ text, line }) =>
    [...text.matchAll(qualified)]
      .filter(([, schema]) => schema !== ownSchema(file))
      .map(([name]) => `${file}:${line}: ${name}`),
  )
}

test('the migrations make a schema for each context that keeps rows, and one for blobs', () => {
  expect([...schemas].sort()).toEqual(['access', 'blob', 'collaboration', 'processing', 'workspace'])
})

test('no statement in the sources names the schema of another context', () => {
  const sources = trackedFiles('server/src/**/*.ts').filter((file) => !file.endsWith('.test.ts'))
  expect(sources.length).toBeGreaterThan(10)
  expect(sources.flatMap((file) => foreignNames(file, readFileSync(join(repositoryRoot, file), 'utf8')))).toEqual([])
})

test('no view, function or foreign key joins two schemas, but blobs may be referred to', () => {
  for (const file of trackedFiles('migrations/*.sql')) {
    const text = readFileSync(join(repositoryRoot, file), 'utf8').replaceAll(/--.*$/gm, '')
    const named = new Set(
      [...text.matchAll(new RegExp(`\\b(${schemas.join('|')})\\.\\w+`, 'g'))].map((match) => match[1]),
    )
    named.delete('blob')
    expect({ file, named: [...named] }).toSatisfy(({ named }) => named.length <= 1)
  }
})

const file = 'server/src/contexts/workspace/store/projects.ts'

test.each([
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
  ['a tagged template', 'sql.type(row)`SELECT * FROM access.grant WHERE id = ${id}`', 'access.grant'],
  ['a fragment without a verb', 'sql.fragment`job.id = processing.job.id`', 'processing.job'],
  ['a plain string', "client.query('DELETE FROM blob.blob')", 'blob.blob'],
  [
    'after a placeholder',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    'sql.unsafe`SELECT ${x} FROM workspace.project JOIN access.grant USING (id)`',
    'access.grant',
  ],
])('a foreign schema is found in %s', (_where, statement, name) => {
  expect(foreignNames(file, `\n${statement}\n`)).toEqual([`${file}:2: ${name}`])
})

test("a context's own schema, comments and TypeScript properties are left alone", () => {
  const source = `
    // access.grant is asked through the facade
    const granted = access.grant(id)
    const text = 'see access.log'
    sql.type(row)\`SELECT * FROM workspace.project\``
  expect(foreignNames(file, source)).toEqual([])
})
