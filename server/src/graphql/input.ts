import { z } from 'zod'
import { ValidationError } from '../platform/errors.ts'

/** Text that is stored as it is and shown on one line. */
const isOneLine = (text: string): boolean => text.isWellFormed() && !/\p{Cc}/u.test(text)
export const oneLine = (what: string) =>
  z.string().refine(isOneLine, `${what} has control characters or half characters. Leave them out.`)

/** Client-made, for one logical command: the same key again is the same command. */
export const idempotencyKey = oneLine('The key')
  .min(1, 'A key has at least one character.')
  .max(200, 'A key has at most 200 characters.')

/** @throws {ValidationError} that lists all issues */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new ValidationError(
    parsed.error.issues.map((issue) => ({
      path: issue.path.map(String),
      message: issue.message,
      code: codeOf(issue.code),
    })),
  )
}

const codeOf = (code: string | undefined): string =>
  code === 'too_big' ? 'too_long' : code === 'too_small' ? 'required' : 'invalid'
