import { tmpdir } from 'node:os'
import { z } from 'zod'

const environment = z.object({
  PLATEN_CORE_URL: z.url({
    protocol: /^https?$/,
    error: 'expected the address of Core, such as http://127.0.0.1:4000',
  }),
  PLATEN_WORKER_TOKEN: z
    .string('expected the token of a worker of the deployment file')
    .regex(/^plw_[a-z0-9-]+\.[\w-]{43}$/, 'expected plw_, a name, a dot and 43 characters'),
  PLATEN_WORKER_SLOTS: z.coerce.number('expected a number from 1 to 256').int().min(1).max(256).default(2),
  PLATEN_EXECUTOR: z.enum(['bubblewrap', 'subprocess'], 'expected bubblewrap or subprocess').default('bubblewrap'),
  PLATEN_WORKER_TMP: z.string().min(1).default(tmpdir()),
  PLATEN_DRAIN_SECONDS: z.coerce.number('expected a number of seconds').min(0).default(20),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

export interface WorkerConfig {
  readonly coreUrl: string
  readonly workerToken: string
  /** Jobs at once, for each processor. */
  readonly slots: number
  readonly executor: 'bubblewrap' | 'subprocess'
  readonly temporaryDirectory: string
  /** What runs may take this long to finish when the worker is told to stop. */
  readonly drainSeconds: number
  readonly logLevel: string
}

/** The environment is not a worker's; the message names each wrong variable, and no value. */
export class WorkerConfigError extends Error {
  override name = 'WorkerConfigError' as const
}

/** @throws {WorkerConfigError} */
export function readWorkerConfig(variables: NodeJS.ProcessEnv): WorkerConfig {
  const parsed = environment.safeParse(variables)
  if (!parsed.success) {
    throw new WorkerConfigError(
      parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('\n'),
    )
  }
  const { data } = parsed
  return {
    coreUrl: data.PLATEN_CORE_URL,
    workerToken: data.PLATEN_WORKER_TOKEN,
    slots: data.PLATEN_WORKER_SLOTS,
    executor: data.PLATEN_EXECUTOR,
    temporaryDirectory: data.PLATEN_WORKER_TMP,
    drainSeconds: data.PLATEN_DRAIN_SECONDS,
    logLevel: data.LOG_LEVEL,
  }
}
