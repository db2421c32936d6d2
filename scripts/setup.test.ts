import { spawnSync } from 'node:child_process'
import { chmod, copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const lock = (version: string) =>
  JSON.stringify({
    packages: {
      '': {},
      server: {},
      'node_modules/node': { version: '24.0.0', dev: true },
      'node_modules/pg': { version },
      'node_modules/other-platform': { version: '1.0.0', optional: true },
    },
  })

/** Every fake notes its call; what it answers is set by files beside it. */
const fakes = {
  npm: `echo "npm $*" >> "$FAKES/calls"
[ -e "$FAKES/npm-fails" ] && exit 1
mkdir -p node_modules/.bin && printf '#!/bin/sh\\necho v24.0.0\\n' > node_modules/.bin/node && chmod +x node_modules/.bin/node
cp package-lock.json node_modules/.package-lock.json`,
  'apt-get': `echo "apt-get $*" >> "$FAKES/calls"
case "$*" in *" update"*) exit 0 ;; esac
[ -e "$FAKES/apt-fails" ] && { echo "E: no network" ; exit 100; }
touch "$FAKES/installed"`,
  'dpkg-query': `for name in "$@"; do case "$name" in -*|*'{'*) continue ;; esac
if [ -e "$FAKES/installed" ] || [ "$name" = latexmk ]; then echo "$name installed"; elif [ "$name" = biber ]; then echo "$name config-files"; fi; done`,
}

/** A repository in which only the set-up script is real; commands are looked up among the fakes alone. */
async function setup({ debian = true }: { debian?: boolean } = {}) {
  const root = await mkdtemp(join(tmpdir(), 'platen-setup-'))
  const bin = join(root, 'fakes')
  await mkdir(join(root, 'scripts'), { recursive: true })
  await mkdir(bin)
  await copyFile(fileURLToPath(new URL('./setup.mjs', import.meta.url)), join(root, 'scripts', 'setup.mjs'))
  await writeFile(join(root, 'package-lock.json'), lock('1.0.0'))
  for (const [name, script] of Object.entries(fakes)) {
    if (!debian && name !== 'npm') continue
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`)
    await chmod(join(bin, name), 0o755)
  }
  for (const name of ['echo', 'mkdir', 'chmod', 'cp', 'touch', 'sh']) await cp(`/bin/${name}`, join(bin, name))
  await chmod(root, 0o755)
  const run = (mode: string, user: { uid?: number; gid?: number } = {}) => {
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts', 'setup.mjs'), mode], {
      cwd: root,
      env: { PATH: bin, FAKES: bin, TMPDIR: root },
      encoding: 'utf8',
      ...user,
    })
    return { status, stderr }
  }
  const calls = async () =>
    (await readFile(join(bin, 'calls'), 'utf8').catch(() => '')).trimEnd().split('\n').filter(Boolean)
  const mark = (name: string) => writeFile(join(bin, name), '')
  return { root, run, calls, mark, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

const isRoot = process.getuid?.() === 0
const nobody = isRoot ? { uid: 65534, gid: 65534 } : {}
/** Only root installs; for another user the refusal below is all there is. */
const whenRoot = isRoot ? test : () => {}

test('what is missing is installed once; the next call does nothing', async () => {
  await using context = await setup()
  expect(context.run('check').status).toBe(0)
  expect(await context.calls()).toEqual([expect.stringMatching(/^npm ci .*--include=dev/)])
  expect(context.run('check')).toEqual({ status: 0, stderr: '' })
  expect(await context.calls()).toHaveLength(1)
})

test('another lock file installs again', async () => {
  await using context = await setup()
  context.run('check')
  await writeFile(join(context.root, 'package-lock.json'), lock('2.0.0'))
  expect(context.run('check').status).toBe(0)
  expect(await context.calls()).toHaveLength(2)
})

test('modules that already match the lock file are not installed again', async () => {
  await using context = await setup()
  context.run('check')
  await rm(join(context.root, 'node_modules', '.platen-setup'))
  expect(context.run('check').status).toBe(0)
  expect(await context.calls()).toHaveLength(1)
})

test('a pinned Node that is missing, as when npm ignores scripts, is built', async () => {
  await using context = await setup()
  context.run('check')
  await rm(join(context.root, 'node_modules', '.bin'), { recursive: true })
  expect(context.run('check').status).toBe(0)
  expect((await context.calls()).at(-1)).toMatch(/^npm rebuild --ignore-scripts=false .*node$/)
})

test('a failed installation says so and does not look finished', async () => {
  await using context = await setup()
  await context.mark('npm-fails')
  const { status, stderr } = context.run('start')
  expect(status).toBe(1)
  expect(stderr).toContain('`npm ci` failed')
  expect(await context.calls()).toHaveLength(1)
})

whenRoot('root on Debian gets the missing packages, and only those, in one apt call', async () => {
  await using context = await setup()
  const { status, stderr } = context.run('test')
  expect(status).toBe(0)
  expect(stderr).toContain('Installing TeX Live')
  const apt = (await context.calls()).filter((call) => call.startsWith('apt-get'))
  expect(apt).toHaveLength(2)
  expect(apt[0]).toMatch(/ update$/)
  expect(apt[1]).toMatch(/ install --no-install-recommends .*\bbiber\b.*\bbubblewrap\b.*\bchromium\b/)
  expect(apt[1]).not.toContain('latexmk')
})

whenRoot('a failed apt names the packages: `start` goes on, `test` does not', async () => {
  await using context = await setup()
  await context.mark('apt-fails')
  const start = context.run('start')
  expect(start.stderr).toContain('E: no network')
  expect(start.stderr).toMatch(/apt-get install -y --no-install-recommends .*texlive-xetex.*\n.*LaTeX jobs wait/)
  expect(start.status).toBe(0)
  expect(context.run('test').status).toBe(1)
})

test('another user on Debian gets the command with sudo', async () => {
  await using context = await setup()
  context.run('check')
  const { status, stderr } = context.run('test', nobody)
  expect(status).toBe(1)
  expect(stderr).toContain('  sudo apt-get install -y --no-install-recommends texlive-latex-recommended')
  expect((await context.calls()).some((call) => call.startsWith('apt-get'))).toBe(false)
})

test('elsewhere the missing commands and the Debian names are told', async () => {
  await using context = await setup({ debian: false })
  const { status, stderr } = context.run('start')
  expect(status).toBe(0)
  expect(stderr).toMatch(/Not found: latexmk, .*bwrap\. Install .*texlive-latex-recommended/)
  expect(context.run('test').status).toBe(1)
})

test('an unknown mode is a usage error', async () => {
  await using context = await setup()
  expect(context.run('everything').status).toBe(2)
})
