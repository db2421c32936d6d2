import { spawn } from 'node:child_process'
import { LaunchError } from './launch-error.ts'
import { LogFile } from './log-file.ts'
import { dyingWithParent } from './processes.ts'

export interface PartOptions {
  /** As people call it: "Core", "The worker". */
  readonly name: string
  /** TypeScript file that Node runs. */
  readonly program: string
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  readonly logFile: string
  /** The first message with one of these types ends the start. */
  readonly readyTypes: readonly string[]
  readonly readyTimeoutMs: number
  /** Ends the start; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

export interface PartMessage {
  readonly type: string
  readonly [field: string]: unknown
}

/** A running process of Platen. */
export interface Part {
  readonly name: string
  readonly pid: number
  /** What it said when it was ready. */
  readonly message: PartMessage
  /** Resolves when it has ended, for whatever reason, with a sentence that names it and quotes its log. */
  readonly ended: Promise<string>
  /** SIGTERM, then SIGKILL when it is still there after `patienceMs`. Resolves when it is gone. */
  stop(patienceMs?: number): Promise<void>
}

const logBoundMs = 60_000

const isMessage = (value: unknown): value is PartMessage =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

const describeEnd = (code: number | null, signal: NodeJS.Signals | null) =>
  signal ? `was ended by ${signal}` : `ended with exit code ${code}`

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })

/**
 * Runs a part of Platen as a child process and waits until it says over IPC that it is ready.
 *
 * @throws {LaunchError} if it ends or stays silent; the message holds what it wrote for people
 */
export async function startPart(options: PartOptions): Promise<Part> {
  const { name, logFile } = options
  const log = new LogFile(logFile)
  const [command, args] = dyingWithParent('TERM', process.execPath, ['--enable-source-maps', options.program])
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: options.env,
    // Its own process group: Ctrl-C is for the launcher, which stops its parts in order.
    detached: true,
    stdio: ['ignore', log.descriptor, log.descriptor, 'ipc'],
  })
  log.close()
  const bounding = setInterval(() => log.bound(), logBoundMs).unref()

  let reason: string | undefined
  const ended = new Promise<string>((resolve) => {
    const end = (how: string) => {
      reason ??= how
      clearInterval(bounding)
      resolve(`${name} ${how}. The end of its log (${logFile}):\n${log.lastLines(5)}`)
    }
    child.once('error', (error) => end(`could not be started: ${error.message}`))
    child.once('exit', (code, signal) => end(describeEnd(code, signal)))
  })

  const stop = async (patienceMs = 30_000) => {
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
    await ended
    clearTimeout(timer)
  }

  const ready = new Promise<PartMessage>((resolve) => {
    child.on('message', (message) => {
      if (isMessage(message) && options.readyTypes.includes(message.type)) resolve(message)
    })
  })
  const deadline = AbortSignal.timeout(options.readyTimeoutMs)
  const givenUp = AbortSignal.any(options.signal ? [deadline, options.signal] : [deadline])
  const first = await Promise.race([ready, ended, aborted(givenUp)])
  if (typeof first === 'object' && child.pid !== undefined) return { name, pid: child.pid, message: first, ended, stop }
  if (first === undefined) {
    await stop(2_000)
    options.signal?.throwIfAborted()
    throw new LaunchError(`${name} was not ready after ${options.readyTimeoutMs / 1000} seconds. See ${logFile}.`)
  }
  const complaint = log.plainLines()
  throw new LaunchError(
    complaint === '' ? `${name} ${reason} before it was ready. See ${logFile}.` : `${name} did not start: ${complaint}`,
  )
}
