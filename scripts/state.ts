import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, LaunchError } from './launch-error.ts'

/** What a deployment that `npm start` made keeps between starts. */
export interface State {
  readonly directory: string
  /** Signs download links and the like. */
  readonly secret: string
  /** The local worker's, `plw_local.…`. */
  readonly workerToken: string
  /** The development principal's API token, `pl_…`. */
  readonly token: string
  /** The deployment TOML; the operator's from its first writing on. */
  readonly configFile: string
}

const random = () => randomBytes(32).toString('base64url')

function readIfPresent(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** The rename makes it whole or absent, whatever interrupts it. */
function writeWhole(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 })
  renameSync(`${file}.new`, file)
}

function keep(file: string, prefix: string): string {
  const kept = readIfPresent(file)?.trim()
  if (kept?.startsWith(prefix) && /^[\w-]{43}$/.test(kept.slice(prefix.length))) return kept
  const made = `${prefix}${random()}`
  writeWhole(file, `${made}\n`)
  return made
}

const configText = (
  tokenDigest: string,
) => `# Platen's deployment file. Written by the first \`npm start\`, yours to change; Platen reads it when it starts.
# Every key, with its unit and default: docs/operations/configuration.md

# What this deployment offers. An operation that is not enabled here is refused.
[operations."latex.compile.pdf/v1"]
enabled = true

# A worker that presents the token with this SHA-256 may serve these operations.
# This one is the local worker's, whose token is in the file worker-token beside this one.
[workers.local]
token_sha256 = "${tokenDigest}"
operations = ["latex.compile.pdf/v1"]

# [limits]
# queued_jobs = 1000
# active_per_requester = 4
`

function keepConfig(file: string, workerToken: string): void {
  const digest = createHash('sha256').update(workerToken).digest('hex')
  const text = readIfPresent(file)
  if (text === undefined) {
    writeWhole(file, configText(digest))
  } else if (!text.includes(digest)) {
    throw new LaunchError(
      `${file} does not know the local worker's token. Set token_sha256 = "${digest}" under [workers.local], or remove the file to have it written anew.`,
    )
  }
}

/**
 * Reads the state in `directory`, making what is absent. Files are readable by their owner alone.
 *
 * @throws {LaunchError} if the directory cannot be used
 */
export function openState(directory: string): State {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    // PostgreSQL does not run as root, and its account must be able to walk through to its own directory.
    chmodSync(directory, process.getuid?.() === 0 ? 0o711 : 0o700)
    const workerToken = keep(join(directory, 'worker-token'), 'plw_local.')
    const configFile = join(directory, 'platen.toml')
    keepConfig(configFile, workerToken)
    return {
      directory,
      secret: keep(join(directory, 'secret'), ''),
      workerToken,
      token: keep(join(directory, 'token'), 'pl_'),
      configFile,
    }
  } catch (cause) {
    if (cause instanceof LaunchError) throw cause
    const code = errorCode(cause)
    if (code === 'ENOTDIR' || code === 'EEXIST')
      throw new LaunchError(`${directory} is not a directory. Move it away.`, { cause })
    if (code === 'ENOSPC') throw new LaunchError(`No space is left on the disk of ${directory}.`, { cause })
    throw new LaunchError(
      `Platen cannot write to ${directory} (${code ?? cause}). Make it this user's, with everything in it: sudo chown -R "$(id -un)" ${directory}`,
      { cause },
    )
  }
}
