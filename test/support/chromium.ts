import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium } from 'playwright-core'

const paths = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** The host's Chromium with a profile of its own; a host that has none fails with what to install. */
export async function openBrowser(
  viewport = { width: 1280, height: 800 },
): Promise<{ readonly context: BrowserContext } & AsyncDisposable> {
  const executablePath = paths.find((path) => existsSync(path))
  if (!executablePath)
    throw new Error('Browser tests need Chromium: apt-get install --no-install-recommends chromium fonts-dejavu-core')
  const profile = await mkdtemp(join(tmpdir(), 'platen-browser-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    viewport,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
  return {
    context,
    [Symbol.asyncDispose]: async () => {
      await context.close()
      await rm(profile, { recursive: true, force: true })
    },
  }
}
