import {
  type Operation,
  operations,
  type Limits as ProcessorLimits,
  limits as processorLimits,
} from '@platen/worker/protocol'
import { parse, TomlError } from 'smol-toml'
import { z } from 'zod'
import { defaultLimits, type Limits } from '../../config/limits.ts'
import { PlatenError } from '../../platform/errors.ts'
import { keyLines } from './toml-lines.ts'

export interface Worker {
  readonly name: string
  readonly tokenSha256: string
  readonly operations: readonly Operation[]
}

/** What this deployment allows, from its one TOML file. */
export interface Deployment {
  readonly production: boolean
  /** Allowed operations with the bounds of one attempt; an operation that is not here does not exist. */
  readonly operations: ReadonlyMap<Operation, ProcessorLimits>
  readonly workers: readonly Worker[]
  readonly limits: Limits
}

class ConfigurationError extends PlatenError {
  override name = 'ConfigurationError' as const
  code = 'CONFIGURATION_INVALID' as const
}

/** Bounds of one attempt where the deployment sets none: room for a book, none for a runaway. */
export const defaultProcessorLimits: Readonly<Record<Operation, ProcessorLimits>> = (() => {
  const bounds: ProcessorLimits = {
    wall_seconds: 120,
    cpu_seconds: 60,
    memory_bytes: 2 * 1024 ** 3,
    processes: 64,
    file_bytes: 256 * 1024 ** 2,
    workspace_bytes: 1024 ** 3,
    workspace_files: 20_000,
    output_bytes: 256 * 1024 ** 2,
  }
  return Object.fromEntries(operations.map((operation) => [operation, bounds])) as Record<Operation, ProcessorLimits>
})()

const snakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
const limitKeys = new Map(Object.keys(defaultLimits).map((name) => [snakeCase(name), name as keyof Limits]))

const operation = z.enum(operations)
const file = z.strictObject({
  server: z.strictObject({ production: z.boolean().default(false) }).prefault({}),
  operations: z
    .partialRecord(
      operation,
      z.strictObject({ enabled: z.boolean().default(true), ...processorLimits.partial().shape }),
    )
    .default({}),
  workers: z
    .record(
      z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'a worker is named by lower-case letters, digits and "-"'),
      z.strictObject({
        token_sha256: z
          .string()
          .regex(/^[0-9a-f]{64}$/, 'expected the SHA-256 of the worker token, 64 lower-case hexadecimal digits'),
        operations: z.array(operation).min(1),
      }),
    )
    .default({}),
  limits: z
    .strictObject(Object.fromEntries([...limitKeys.keys()].map((key) => [key, z.number().positive().optional()])))
    .default({}),
})

/**
 * Reads a deployment file.
 *
 * @param name as it is to appear in messages
 * @throws {ConfigurationError} that lists each wrong key with its line
 */
export function parseDeployment(text: string, name: string): Deployment {
  const parsed = file.safeParse(parsedToml(text, name))
  if (!parsed.success) {
    const lineOf = keyLines(text)
    const problems = parsed.error.issues.flatMap((issue) =>
      describe(issue).map(({ path, message }) => `${name}:${lineOf(path)}: ${path.join('.')}: ${message}`),
    )
    throw new ConfigurationError(problems.join('\n'))
  }
  const { data } = parsed
  const overrides = Object.entries(data.limits).flatMap(([key, value]) => {
    const limit = limitKeys.get(key)
    return limit === undefined || value === undefined ? [] : [[limit, value]]
  })
  return {
    production: data.server.production,
    operations: new Map(
      Object.entries(data.operations).flatMap(([key, { enabled, ...bounds }]) =>
        enabled ? [[key as Operation, { ...defaultProcessorLimits[key as Operation], ...defined(bounds) }]] : [],
      ),
    ),
    workers: Object.entries(data.workers).map(([worker, { token_sha256, operations: allowed }]) => ({
      name: worker,
      tokenSha256: token_sha256,
      operations: allowed,
    })),
    limits: { ...defaultLimits, ...Object.fromEntries(overrides) },
  }
}

function parsedToml(text: string, name: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    if (error instanceof TomlError)
      throw new ConfigurationError(`${name}:${error.line}: ${error.message.split('\n')[0]}`)
    throw error
  }
}

interface Problem {
  readonly path: readonly string[]
  readonly message: string
}

function describe(issue: z.core.$ZodIssue): Problem[] {
  const path = issue.path.map(String)
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...path, key],
      message: 'this key is not known; see docs/operations/configuration.md',
    }))
  }
  if (issue.code === 'invalid_key') return [{ path, message: issue.issues[0]?.message ?? issue.message }]
  return [{ path, message: issue.message }]
}

const defined = <T extends object>(value: T): { [K in keyof T]-?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as never
