import { execFile } from 'node:child_process'

const outputBytes = 32 * 1024 * 1024
const milliseconds = 20_000

/**
 * Asks a program of the host, for what is not a document's business: versions, lists of packages and fonts.
 *
 * @returns its standard output, or null if it is not there or fails
 */
export function hostCommand(command: string, args: readonly string[]): Promise<string | null> {
  const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8', HOME: '/nonexistent' }
  return new Promise((resolve) => {
    execFile(command, args, { env: environment, maxBuffer: outputBytes, timeout: milliseconds }, (error, stdout) =>
      resolve(error ? null : stdout),
    )
  })
}
