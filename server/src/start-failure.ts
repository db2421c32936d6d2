import { PlatenError } from './platform/errors.ts'

/** Why Core did not start, in a sentence that says what to do; what is unforeseen keeps its stack. */
export function explain(error: unknown): string {
  if (error instanceof PlatenError) return error.message
  const { code, address, port, path, message, stack } = error as NodeJS.ErrnoException & {
    address?: string
    port?: number
  }
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} at ${address} is taken. Stop what listens there, or set PORT to another one.`
    case 'EACCES':
      return `${path ?? `Port ${port}`} may not be used by this user. Change its permissions, or take another.`
    case 'ENOENT':
      return `${path} does not exist. PLATEN_CONFIG must name the deployment file.`
    case 'ECONNREFUSED':
      return `The database at ${address}:${port} does not answer. Start it, or correct DATABASE_URL.`
    case '28P01':
    case '28000':
      return `The database refused the user or password of DATABASE_URL: ${message}.`
    case '3D000':
      return `The database does not have what DATABASE_URL names: ${message}.`
    case '53300':
      return `The database has no connection left: ${message}. Raise its max_connections, or start fewer clients.`
    default:
      return stack ?? message
  }
}
