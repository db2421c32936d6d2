/** Speaks Platen's public API with nothing but fetch, as a stranger would. */
export class GraphQLConnection {
  readonly #url: string
  readonly #headers: Record<string, string>

  constructor(url: string, token: string) {
    this.#url = url
    this.#headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  }

  /** @throws if the answer holds errors */
  async execute<Data>(query: string, variables: object): Promise<Data> {
    const response = await this.#post(query, variables, 'application/json')
    return dataOf<Data>(await response.json())
  }

  /** The results of a subscription, until the server completes it. */
  async *subscribe<Data>(query: string, variables: object): AsyncGenerator<Data> {
    const response = await this.#post(query, variables, 'text/event-stream')
    let buffered = ''
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      buffered += chunk
      const events = buffered.split('\n\n')
      buffered = events.pop() ?? ''
      for (const event of events) {
        const fields = new Map(
          event.split('\n').map((line) => [line.split(':', 1)[0], line.slice(line.indexOf(':') + 1).trim()]),
        )
        if (fields.get('event') === 'complete') return
        if (fields.get('event') === 'next') yield dataOf<Data>(JSON.parse(fields.get('data') ?? ''))
      }
    }
  }

  async download(path: string): Promise<Uint8Array> {
    const response = await fetch(new URL(path, this.#url))
    if (!response.ok) throw new Error(`GET ${new URL(path, this.#url).pathname} answered ${response.status}`)
    return new Uint8Array(await response.arrayBuffer())
  }

  async #post(query: string, variables: object, accept: string): Promise<Response> {
    const response = await fetch(new URL('/graphql', this.#url), {
      method: 'POST',
      headers: { ...this.#headers, accept },
      body: JSON.stringify({ query, variables }),
    })
    if (!response.ok) throw new Error(`POST /graphql answered ${response.status}: ${await response.text()}`)
    return response
  }
}

function dataOf<Data>(result: unknown): Data {
  const { data, errors } = result as { data: Data; errors?: unknown }
  if (errors !== undefined) throw new Error(`GraphQL errors: ${JSON.stringify(errors)}`)
  return data
}
