import { readFile } from 'node:fs/promises'
import { pino } from 'pino'
import { startApp } from './app.ts'
import { readEnvironment } from './config/env.ts'
import { parseDeployment } from './contexts/distribution/index.ts'
import { noFailpoints, parseFailpoints } from './platform/failpoints.ts'
import { explain } from './start-failure.ts'

/** They make a process fail on purpose, which no production does. */
function readFailpoints(text: string | null, production: boolean) {
  if (text === null) return noFailpoints
  if (production) throw new Error('PLATEN_FAILPOINTS is for tests: a production deployment does not start with it.')
  return parseFailpoints(text)
}

const longestStopMilliseconds = 10_000

try {
  const environment = readEnvironment(process.env)
  // The processes that this one may start inherit neither.
  delete process.env.PLATEN_SECRET
  delete process.env.PLATEN_DEV_TOKEN
  const { databaseUrl, deploymentFile, developmentToken, host, logLevel, port, secret } = environment
  const deployment = parseDeployment(await readFile(deploymentFile, 'utf8'), deploymentFile)
  const log = pino({ level: logLevel, redact: ['req.headers.authorization'] })
  const failpoints = readFailpoints(environment.failpoints, deployment.production)
  const app = await startApp({ databaseUrl, deployment, developmentToken, failpoints, host, log, port, secret })
  let stopping = false
  const stop = async () => {
    if (stopping) return
    stopping = true
    // What cannot be closed, such as connections to a database that is gone, must not hold the process.
    setTimeout(() => process.exit(1), longestStopMilliseconds).unref()
    await app.close()
    process.exit(0)
  }
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  process.once('disconnect', stop)
  log.info({ port: app.port }, 'Core is ready')
  process.send?.({ type: 'ready', port: app.port })
} catch (error) {
  process.stderr.write(`${explain(error)}\n`)
  process.exit(1)
}
