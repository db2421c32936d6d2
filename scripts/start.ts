import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LaunchError } from './launch-error.ts'
import { type Stack, startStack } from './stack.ts'

const root = fileURLToPath(new URL('../', import.meta.url))

function portFromEnvironment(): number {
  const text = process.env.PORT ?? '4000'
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(port <= 65_535)) throw new LaunchError(`PORT must be a number from 0 to 65535, not "${text}".`)
  return port
}

function announce(stack: Stack): void {
  const shown = (file: string) => relative(process.cwd(), file)
  for (const reason of stack.waitingReasons) console.log(`Waiting: ${reason}`)
  console.log(`Platen is ready at ${stack.url}`)
  console.log(`Development token: ${stack.token}`)
  console.log(`Logs: ${shown(stack.logFiles.core)} and ${shown(stack.logFiles.worker)}. Ctrl-C stops everything.`)
}

/** Aborted by the first signal; on a second one nothing is waited for any more. */
function stopRequest(): AbortSignal {
  const request = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => {
      // The parts follow: they are told to die with their parent.
      if (request.signal.aborted) process.kill(process.pid, 'SIGKILL')
      request.abort()
    })
  }
  return request.signal
}

async function main(stop: AbortSignal): Promise<number> {
  const stack = await startStack({
    directory: resolve(root, process.env.PLATEN_STATE ?? '.platen'),
    port: portFromEnvironment(),
    signal: stop,
    ...(process.env.HOST ? { host: process.env.HOST } : {}),
    ...(process.env.DATABASE_URL ? { databaseUrl: process.env.DATABASE_URL } : {}),
  })
  announce(stack)
  const stopped = new Promise<undefined>((resolve) => stop.addEventListener('abort', () => resolve(undefined)))
  const reason = stop.aborted ? undefined : await Promise.race([stopped, stack.broken])
  if (reason !== undefined) console.error(reason)
  await stack.stop()
  return reason === undefined ? 0 : 1
}

const stop = stopRequest()
try {
  process.exitCode = await main(stop)
} catch (error) {
  if (stop.aborted && error === stop.reason) {
    process.exitCode = 0
  } else if (error instanceof LaunchError) {
    console.error(error.message)
    process.exitCode = 1
  } else {
    // A fault of the launcher itself wants its stack.
    throw error
  }
}
