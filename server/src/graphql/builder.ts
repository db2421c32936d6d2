import SchemaBuilder from '@pothos/core'
import ErrorsPlugin from '@pothos/plugin-errors'
import RelayPlugin from '@pothos/plugin-relay'
import { NotFoundError } from '../platform/errors.ts'
import type { Context } from './context.ts'

export interface SchemaTypes {
  Context: Context
  DefaultFieldNullability: false
  DefaultEdgesNullability: false
  DefaultNodeNullability: false
  Scalars: {
    DateTime: { Input: Date; Output: Date }
    BigInt: { Input: number; Output: number }
    Sha256: { Input: string; Output: string }
    ID: { Input: string; Output: string }
  }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export const builder = new SchemaBuilder<SchemaTypes>({
  plugins: [ErrorsPlugin, RelayPlugin],
  defaultFieldNullability: false,
  errors: { defaultTypes: [], directResult: true },
  relay: {
    idFieldOptions: { description: 'Global id: opaque, the same for ever.' },
    edgesFieldOptions: { nullable: false, description: 'The entries of this page.' },
    nodeFieldOptions: { nullable: false, description: 'What stands here.' },
    nodeTypeOptions: { description: 'Anything with a global id.' },
    nodeQueryOptions: {
      description: 'The thing with this id, if you may see it.',
      args: { id: { description: 'Global id.' } },
    },
    nodesQueryOptions: {
      description: 'The things with these ids, in order; null for each that you may not see.',
      args: { ids: { description: 'Global ids.' } },
    },
    firstArgOptions: { description: 'How many from the newest on, at most 100. 20 without `first` and `last`.' },
    lastArgOptions: { description: 'How many from the oldest back, at most 100.' },
    afterArgOptions: { description: 'Go on behind this cursor; with `first`.' },
    beforeArgOptions: { description: 'Go back from this cursor; with `last`.' },
    pageInfoFieldOptions: { description: 'Where this page stands.' },
    hasNextPageFieldOptions: { description: 'Whether older entries follow.' },
    hasPreviousPageFieldOptions: { description: 'Whether newer entries come before.' },
    startCursorFieldOptions: { description: 'Of the first entry of this page.' },
    endCursorFieldOptions: { description: 'Of the last entry of this page.' },
    pageInfoTypeOptions: { description: 'Where a page stands in its connection.' },
    cursorFieldOptions: { description: 'Where this edge stands: opaque, stable.' },
    clientMutationId: 'omit',
    encodeGlobalID: (typename, id) => Buffer.from(`${typename}:${id}`).toString('base64url'),
    // An id that is none looks like one of a thing that is not there.
    decodeGlobalID: (globalId) => {
      const [typename, id, ...more] = Buffer.from(globalId, 'base64url').toString().split(':')
      if (!typename || !id || more.length > 0 || !uuid.test(id)) throw new NotFoundError('Nothing')
      return { typename, id }
    },
  },
})

builder.queryType({ description: 'What can be read. Everything is seen as the principal of the token.' })
builder.mutationType({ description: 'What can be done. Expected failures are members of each result.' })
builder.subscriptionType({
  description:
    'Live state. The first message is the present state and each later one the newest, so that a client that reconnects has missed nothing.',
})

/** A closed enum whose GraphQL names are the upper-case forms of our words, each described. */
export function closedEnum<Word extends string>(
  name: string,
  description: string,
  words: Readonly<Record<Word, string>>,
) {
  const values = Object.entries<string>(words).map(([value, text]) => [
    value.toUpperCase(),
    { value, description: text },
  ])
  const options = {
    description,
    values: Object.fromEntries(values) as Record<string, { value: Word; description: string }>,
  }
  return builder.enumType(name, options)
}
