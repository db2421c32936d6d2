import { lexicographicSortSchema, printSchema as print } from 'graphql'
import { schema } from './schema.ts'

/** The public schema, as `schema.graphql` holds it. */
export const printSchema = (): string => `${print(lexicographicSortSchema(schema))}\n`
