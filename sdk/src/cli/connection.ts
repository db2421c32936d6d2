import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Platen } from '../client.ts'
import { UsageError } from './outcome.ts'

export interface Connection {
  readonly platen: Platen
  readonly url: string
  /** Where the token came from, for `doctor`. */
  readonly tokenSource: string
}

const checkout = fileURLToPath(new URL('../../../', import.meta.url))

/**
 * The server and identity of this call: PLATEN_URL and PLATEN_TOKEN, or the development token that `npm start` left in
 * `.platen/` at or above the working directory or in the checkout the command belongs to.
 *
 * @throws {UsageError} if there is no token
 */
export function connect(environment: NodeJS.ProcessEnv = process.env): Connection {
  const url = environment.PLATEN_URL || 'http://127.0.0.1:4000'
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new UsageError(`PLATEN_URL is "${url}"; expected an address such as http://127.0.0.1:4000.`)
  }
  const found = findToken(environment)
  if (!found) {
    throw new UsageError(
      'No token: set PLATEN_TOKEN, or start a local server with "npm start", which leaves one in .platen/token.',
    )
  }
  return { platen: new Platen({ url, token: found.token }), url, tokenSource: found.source }
}

function findToken(environment: NodeJS.ProcessEnv): { token: string; source: string } | null {
  if (environment.PLATEN_TOKEN) return { token: environment.PLATEN_TOKEN.trim(), source: 'PLATEN_TOKEN' }
  for (const directory of [...upwards(process.cwd()), checkout]) {
    const path = join(directory, '.platen', 'token')
    try {
      return { token: readFileSync(path, 'utf8').trim(), source: path }
    } catch {
      // Not here: look further up.
    }
  }
  return null
}

function* upwards(start: string): Generator<string> {
  for (let directory = start; ; directory = dirname(directory)) {
    yield directory
    if (dirname(directory) === directory) return
  }
}
