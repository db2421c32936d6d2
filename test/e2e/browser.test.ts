import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Stack, startStack } from '../../scripts/stack.ts'
import { openBrowser } from '../support/chromium.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

describe('the host page in a browser', () => {
  let database: TestDatabase
  let directory: string
  let stack: Stack
  let browser: Awaited<ReturnType<typeof openBrowser>>
  let page: Page
  const troubles: string[] = []
  beforeAll(async () => {
    database = await createDatabase()
    directory = await mkdtemp(join(tmpdir(), 'platen-browser-e2e-'))
    await chmod(directory, 0o711)
    stack = await startStack({ directory: join(directory, 'state'), port: 0, databaseUrl: database.url })
    browser = await openBrowser()
    page = await browser.context.newPage()
    page.on('pageerror', (error) => troubles.push(error.message))
    page.on(
      'console',
      (message) =>
        message.type() === 'error' && /Content Security Policy/.test(message.text()) && troubles.push(message.text()),
    )
    await page.goto(stack.url)
  })
  afterAll(async () => {
    await browser?.[Symbol.asyncDispose]()
    await stack?.stop()
    await rm(directory, { recursive: true, force: true })
    await database[Symbol.asyncDispose]()
  })

  it('asks for a token and says so when the server does not know it', async () => {
    await page.getByLabel('Token').fill(`pl_${'x'.repeat(43)}`)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('The server does not know this token.').waitFor()
    await page.getByLabel('Token').fill(stack.token)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('button', { name: 'Build' }).waitFor()
  })

  it('builds, shows the task live and gives the PDF', async () => {
    await page.getByRole('button', { name: 'Build' }).click()
    await page.getByRole('button', { name: /^Tasks/ }).click()
    const drawer = page.getByRole('dialog', { name: 'Tasks' })
    await drawer.getByText('Done', { exact: true }).waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      drawer.getByRole('button', { name: /^PDF/ }).click(),
    ])
    const bytes = await readFile(await download.path())
    expect(bytes.subarray(0, 5).toString()).toBe('%PDF-')
    expect(download.suggestedFilename()).toBe('A first page.pdf')
    if (process.env.PLATEN_SCREENSHOTS)
      await page.screenshot({ path: join(process.env.PLATEN_SCREENSHOTS, 'done.png') })
    await page.keyboard.press('Escape')
    await page.getByText('A first page.pdf is ready.').waitFor()
  })

  it('shows what TeX found, with its place', async () => {
    await page
      .getByLabel('Source')
      .fill('\\documentclass{article}\n\\begin{document}\n\\nosuchcommand Hello\n\\end{document}\n')
    await page.getByLabel('publish in spite of errors').uncheck()
    await page.getByRole('button', { name: 'Build' }).click()
    await page.getByRole('button', { name: /^Tasks/ }).click()
    const drawer = page.getByRole('dialog', { name: 'Tasks' })
    await drawer.getByText('Has errors').waitFor()
    await drawer.getByRole('button', { name: '1 finding' }).first().click()
    await drawer.getByText('main.tex:3').waitFor()
    await drawer.getByText('Undefined control sequence.').waitFor()
    if (process.env.PLATEN_SCREENSHOTS)
      await page.screenshot({ path: join(process.env.PLATEN_SCREENSHOTS, 'findings.png') })
  })

  it('still knows its tasks in a new tab, and needs no policy to be relaxed for it', async () => {
    const other = await browser.context.newPage()
    await other.goto(stack.url)
    await other.getByLabel('Token').fill(stack.token)
    await other.getByRole('button', { name: 'Continue' }).click()
    await other.getByRole('button', { name: /^Tasks/ }).click()
    await other.getByText('Has errors').waitFor()
    await other.close()
    expect(troubles).toEqual([])
  })
})
