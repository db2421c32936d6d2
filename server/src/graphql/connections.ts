import { GraphQLError } from 'graphql'

const defaultPageSize = 20
const largestPageSize = 100

interface Position {
  readonly micros: number
  readonly id: string
}

interface ConnectionArguments {
  readonly first?: number | null | undefined
  readonly last?: number | null | undefined
  readonly before?: string | null | undefined
  readonly after?: string | null | undefined
}

export interface KeysetPage {
  readonly limit: number
  /** Only rows strictly beyond this one in the page's direction. */
  readonly beyond: Position | null
  /** For pages that are read backward. */
  readonly oldestFirst: boolean
}

/**
 * One page of a list that is newest first. Cursors hold the creation to the microsecond and the id, so that a page
 * stays where it was whatever comes before it.
 *
 * @throws {GraphQLError} for pages that cannot be read as asked
 */
export async function keysetConnection<Row extends { readonly id: string; readonly createdMicros: number }>(
  args: ConnectionArguments,
  load: (page: KeysetPage) => Promise<readonly Row[]>,
) {
  checkPage(args)
  const { first, last, before, after } = args
  const limit = first ?? last ?? defaultPageSize
  const backward = last != null || before != null
  const loaded = await load({ limit: limit + 1, beyond: positionOf(after ?? before), oldestFirst: backward })
  const more = loaded.length > limit
  const rows = backward ? loaded.slice(0, limit).reverse() : loaded.slice(0, limit)
  const edges = rows.map((node) => ({ cursor: cursorOf(node), node }))
  return {
    edges,
    pageInfo: {
      startCursor: edges[0]?.cursor ?? null,
      endCursor: edges.at(-1)?.cursor ?? null,
      hasNextPage: backward ? before != null : more,
      hasPreviousPage: backward ? more : after != null,
    },
  }
}

const cursorOf = ({ createdMicros, id }: { createdMicros: number; id: string }): string =>
  Buffer.from(`${createdMicros}:${id}`).toString('base64url')

function checkPage({ first, last, before, after }: ConnectionArguments): void {
  if ((first ?? last ?? 0) > largestPageSize) throw invalid(`A page has at most ${largestPageSize} entries.`)
  if ((first ?? 1) < 0 || (last ?? 1) < 0) throw invalid('A page cannot have a negative number of entries.')
  if (first != null && last != null) throw invalid('Give "first" or "last", not both.')
  if (before != null && after != null) throw invalid('Give "after" or "before", not both.')
  if ((first != null && before != null) || (last != null && after != null)) {
    throw invalid('"first" goes with "after", "last" with "before".')
  }
}

function positionOf(cursor: string | null | undefined): Position | null {
  if (cursor == null) return null
  const [, micros, id] = /^(\d{1,16}):([0-9a-f-]{36})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (!micros || !id) throw invalid('This is not a cursor of this connection.')
  return { micros: Number(micros), id }
}

const invalid = (message: string): GraphQLError => new GraphQLError(message, { extensions: { code: 'BAD_USER_INPUT' } })
