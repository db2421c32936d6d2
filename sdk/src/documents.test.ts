import { readFileSync } from 'node:fs'
import { buildSchema, parse, validate } from 'graphql'
import { describe, expect, it } from 'vitest'
import { documents } from './documents.ts'

const schema = buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'))

describe('what the client asks', () => {
  it.each(Object.entries(documents))('%s is what the schema allows', (_name, text) => {
    expect(validate(schema, parse(text)).map((error) => error.message)).toEqual([])
  })
})
