import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiClient } from '../support/platen/api-client.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

describe('moving bytes', () => {
  let platen: TestApp
  let user: ApiClient
  let database: pg.Pool
  beforeAll(async () => {
    platen = await startTestApp()
    user = await platen.newUser()
    database = new pg.Pool({ connectionString: platen.database.url, max: 2 })
  })
  afterAll(async () => {
    await database.end()
    await platen[Symbol.asyncDispose]()
  })

  describe('up', () => {
    const declare = async (bytes: Buffer, byteLength = bytes.length) => {
      const { upload } = await user.mutate(
        'createUpload',
        'CreateUploadInput',
        { byteLength, sha256: sha256(bytes) },
        '... on CreateUploadPayload { upload { id url } }',
      )
      return { id: upload.id as string, url: platen.url + upload.url }
    }
    const put = (url: string, bytes: Buffer) => fetch(url, { method: 'PUT', body: new Uint8Array(bytes) })

    it('stores what was declared, in many chunks, and gives it to the project as an asset', async () => {
      const bytes = randomBytes(5 * 1024 * 1024 + 321)
      const projectId = await user.newProject(article)
      expect(await user.upload(projectId, 'figures/big.png', bytes)).toMatchObject({
        file: { path: 'figures/big.png', kind: 'ASSET', byteLength: String(bytes.length), sha256: sha256(bytes) },
      })
    })

    it('takes the same bytes twice, and an empty file', async () => {
      const bytes = Buffer.from('same')
      const { url } = await declare(bytes)
      expect([(await put(url, bytes)).status, (await put(url, bytes)).status]).toEqual([204, 204])
      const empty = await declare(Buffer.alloc(0))
      expect((await put(empty.url, Buffer.alloc(0))).status).toBe(204)
    })

    it('refuses other bytes, fewer, more, and a ticket that is none', async () => {
      const bytes = Buffer.from('expected')
      const { id, url } = await declare(bytes)
      expect((await put(url, Buffer.from('EXPECTED'))).status).toBe(422)
      expect((await put(url, bytes.subarray(1))).status).toBe(400)
      expect((await put(url, Buffer.concat([bytes, bytes]))).status).toBe(400)
      expect((await put(`${url}x`, bytes)).status).toBe(404)
      const projectId = await user.newProject()
      const write = await user.mutate(
        'writeAsset',
        'WriteAssetInput',
        { projectId, path: 'a.bin', uploadId: id },
        '__typename',
      )
      expect(write).toMatchObject({ issues: [{ path: ['uploadId'], code: 'not_found' }] })
    })

    it("keeps nothing of an upload that broke off, and does not give one person's upload to another", async () => {
      const bytes = randomBytes(3 * 1024 * 1024)
      const { id, url } = await declare(bytes)
      await breakOff(new URL(url), bytes)
      await expect
        .poll(async () => (await database.query('SELECT count(*)::int AS count FROM blob.writing')).rows[0].count)
        .toBe(0)
      expect((await database.query('SELECT 1 FROM blob.blob WHERE sha256 = $1', [sha256(bytes)])).rows).toEqual([])
      expect((await put(url, bytes)).status).toBe(204)
      const other = await platen.newUser()
      const projectId = await other.newProject()
      const write = await other.mutate(
        'writeAsset',
        'WriteAssetInput',
        { projectId, path: 'a.bin', uploadId: id },
        '__typename',
      )
      expect(write).toMatchObject({ issues: [{ code: 'not_found' }] })
    })
  })

  describe('down', () => {
    const log = Buffer.from(Array.from({ length: 300_000 }, (_, index) => 32 + (index % 90)))
    let url: string
    let etag: string
    const get = (headers: Record<string, string> = {}, method = 'GET') => fetch(url, { method, headers })
    const body = async (response: Response) => Buffer.from(await response.arrayBuffer())

    beforeAll(async () => {
      const worker = platen.newWorker()
      await worker.open()
      const projectId = await user.newProject(article, { name: 'Über "alles"' })
      const { job } = await user.build(projectId)
      const claim = await worker.claim()
      await worker.stage(claim, 'log', log)
      await worker.fail(claim, 'processor_rejected', { roles: ['log'] })
      url = platen.url + (await user.job(job.id)).artifacts[0].downloadUrl
      etag = `"${sha256(log)}"`
    })

    it('serves the whole file under a name that is safe, as nothing a browser would run', async () => {
      const response = await get()
      expect(response.status).toBe(200)
      expect(await body(response)).toEqual(log)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'accept-ranges': 'bytes',
        'content-disposition': `attachment; filename="_ber -alles-.log"; filename*=UTF-8''%C3%9Cber%20-alles-.log`,
        'content-length': String(log.length),
        'content-type': 'text/plain; charset=utf-8',
        etag,
        'x-content-type-options': 'nosniff',
      })
    })

    it('answers HEAD without a body', async () => {
      const response = await get({}, 'HEAD')
      expect([response.status, response.headers.get('content-length'), (await body(response)).length]).toEqual([
        200,
        String(log.length),
        0,
      ])
    })

    it('serves a range, also to resume, and says when there is none', async () => {
      const first = await get({ range: 'bytes=100-199' })
      expect([first.status, first.headers.get('content-range')]).toEqual([206, `bytes 100-199/${log.length}`])
      expect(await body(first)).toEqual(log.subarray(100, 200))
      const rest = await get({ range: 'bytes=299000-', 'if-range': etag })
      expect(await body(rest)).toEqual(log.subarray(299_000))
      const changed = await get({ range: 'bytes=299000-', 'if-range': '"another"' })
      expect([changed.status, (await body(changed)).length]).toEqual([200, log.length])
      const beyond = await get({ range: `bytes=${log.length}-` })
      expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${log.length}`])
    })

    it('answers 304 to who has it already', async () => {
      expect((await get({ 'if-none-match': etag })).status).toBe(304)
      expect((await get({ 'if-none-match': '"another"' })).status).toBe(200)
    })

    it('does not open with a forged link, and the API never puts a token into one', async () => {
      for (const wrong of [`${url}x`, url.replace(/\.[^.]+$/, ''), `${platen.url}/downloads/nonsense`]) {
        expect((await fetch(wrong)).status).toBe(404)
      }
      expect(url).not.toContain(user.token)
    })
  })

  describe('clean-up', () => {
    it('drops blobs that nobody holds after their grace, and none that somebody holds', async () => {
      await using quick = await startTestApp({ limits: { blob_grace_seconds: 2, sweep_seconds: 0.05 } })
      const owner = await quick.newUser()
      const rows = new pg.Pool({ connectionString: quick.database.url, max: 1 })
      const projectId = await owner.newProject(article)
      const [kept, dropped] = [randomBytes(2_000_000), randomBytes(2_000_000)]
      await owner.upload(projectId, 'kept.bin', kept)
      await owner.upload(projectId, 'dropped.bin', dropped)
      await rows.query('UPDATE workspace.upload SET expires_at = now()')
      await owner.mutate('deleteFile', 'DeleteFileInput', { projectId, path: 'dropped.bin' }, '__typename')
      const stored = async () => (await rows.query('SELECT sha256 FROM blob.blob')).rows.map((row) => row.sha256)
      await expect.poll(stored, { timeout: 15_000 }).toEqual([sha256(kept)])
      await expect
        .poll(
          async () =>
            (await rows.query('SELECT count(DISTINCT content_id)::int AS count FROM blob.chunk')).rows[0].count,
        )
        .toBe(1)
      await rows.end()
    })
  })
})

/** Sends half of a request and cuts the connection. */
async function breakOff(url: URL, bytes: Buffer): Promise<void> {
  const socket = connect(Number(url.port), url.hostname)
  socket.on('error', () => {})
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(`PUT ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\ncontent-length: ${bytes.length}\r\n\r\n`)
  await new Promise((resolve) => socket.write(bytes.subarray(0, bytes.length / 2), resolve))
  socket.destroy()
}
