import { z } from 'zod'
import { PlatenError } from '../platform/errors.ts'

class EnvironmentError extends PlatenError {
  override name = 'EnvironmentError' as const
  code = 'ENVIRONMENT_INVALID' as const
}

const environment = z.object({
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'expected postgresql://user:password@host:port/database' }),
  HOST: z.string().min(1).default('127.0.0.1'),
  PORT: z.coerce.number().int().min(0).max(65_535).default(4000),
  PLATEN_CONFIG: z.string().min(1, 'expected the path of the deployment file'),
  PLATEN_SECRET: z.string().min(32, 'expected at least 32 random characters, the same for all replicas'),
  /** Only for development: this token opens everything that the development principal owns. */
  PLATEN_DEV_TOKEN: z.string().optional(),
  /** Only for tests; see platform/failpoints.ts. */
  PLATEN_FAILPOINTS: z.string().optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
})

export interface Environment {
  readonly databaseUrl: string
  readonly host: string
  readonly port: number
  readonly deploymentFile: string
  readonly secret: string
  readonly developmentToken: string | null
  readonly failpoints: string | null
  readonly logLevel: string
}

/** @throws {EnvironmentError} that names each wrong variable, and no value */
export function readEnvironment(variables: NodeJS.ProcessEnv): Environment {
  const parsed = environment.safeParse(variables)
  if (!parsed.success) {
    throw new EnvironmentError(
      parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${messageOf(issue)}`).join('\n'),
    )
  }
  const { data } = parsed
  return {
    databaseUrl: data.DATABASE_URL,
    host: data.HOST,
    port: data.PORT,
    deploymentFile: data.PLATEN_CONFIG,
    secret: data.PLATEN_SECRET,
    developmentToken: data.PLATEN_DEV_TOKEN ?? null,
    failpoints: data.PLATEN_FAILPOINTS ?? null,
    logLevel: data.LOG_LEVEL,
  }
}

const messageOf = (issue: z.core.$ZodIssue): string =>
  issue.code === 'invalid_type' && issue.input === undefined ? 'this variable is required' : issue.message
