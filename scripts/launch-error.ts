/** Something that keeps Platen from starting, told as one sentence that says what to do. Printed without a stack. */
export class LaunchError extends Error {
  override name = 'LaunchError' as const
}

export const errorCode = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
