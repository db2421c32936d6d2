import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Part, startPart } from '../../scripts/part.ts'
import { operation } from './platen.ts'

const secret = () => randomBytes(32).toString('base64url')
const root = fileURLToPath(new URL('../../', import.meta.url))

export interface Core extends AsyncDisposable {
  readonly url: string
  /** Of the development principal. */
  readonly token: string
  readonly workerToken: string
  readonly part: Part
}

/** Core as its own process, on a database, with limits that never bind. */
export async function startCore(directory: string, databaseUrl: string, slots: number): Promise<Core> {
  const [token, workerToken] = [`pl_${secret()}`, `plw_bench.${secret()}`]
  const config = join(directory, 'bench.toml')
  await writeFile(
    config,
    `[operations."${operation}"]
enabled = true
[workers.bench]
token_sha256 = "${createHash('sha256').update(workerToken).digest('hex')}"
operations = ["${operation}"]
[limits]
active_per_requester = ${slots}
active_per_project = ${slots}
queued_jobs = 1000000
`,
  )
  const part = await startPart({
    name: 'Core',
    program: join(root, 'server/src/main.ts'),
    cwd: root,
    logFile: join(directory, 'core.log'),
    readyTypes: ['ready'],
    readyTimeoutMs: 60_000,
    env: {
      ...process.env,
      NODE_ENV: 'production',
      LOG_LEVEL: 'warn',
      DATABASE_URL: databaseUrl,
      HOST: '127.0.0.1',
      PORT: '0',
      PLATEN_CONFIG: config,
      PLATEN_SECRET: secret(),
      PLATEN_DEV_TOKEN: token,
    },
  })
  const url = `http://127.0.0.1:${part.message.port}`
  return { url, token, workerToken, part, [Symbol.asyncDispose]: () => part.stop() }
}
