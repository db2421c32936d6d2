#!/usr/bin/env node
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(import.meta.url)
const [major, minor] = process.versions.node.split('.').map(Number)
// The sources are TypeScript, which Node reads by itself from 22.18 on.
if (major > 22 || (major === 22 && minor >= 18)) {
  const { main } = await import('../src/cli/main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  const pinned = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
  if (existsSync(pinned)) {
    const child = spawn(pinned, [here, ...process.argv.slice(2)], { stdio: 'inherit' })
    // A terminal sends Ctrl-C to both; what it means is the child's to say.
    process.on('SIGINT', () => {})
    process.on('SIGTERM', () => child.kill('SIGTERM'))
    child.once('exit', (code) => process.exit(code ?? 130))
  } else {
    process.stderr.write(
      `platen needs Node 22.18 or newer; this is ${process.version}. Run "npm install" in its checkout, which brings one.\n`,
    )
    process.exitCode = 2
  }
}
