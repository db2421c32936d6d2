import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Postgres, startPostgres } from '../../scripts/postgres.ts'
import { migrate } from '../../server/src/platform/migrate.ts'
import { DatabaseProxy } from '../soak/database-proxy.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const leaseSeconds = 2

/** A database of its own, so that it may be killed; its address stays. */
describe('a database that is killed and comes back', () => {
  let directory: string
  let postgres: Postgres
  let platen: TestApp
  const address = new DatabaseProxy()
  const start = async () => {
    postgres = await startPostgres({ directory, settings: { fsync: 'off' }, say: () => {} })
    await address.up(Number(new URL(postgres.url).port))
  }
  const kill = async () => {
    const [pid = ''] = (await readFile(join(postgres.directory, 'data/postmaster.pid'), 'utf8')).split('\n')
    process.kill(Number(pid), 'SIGKILL')
    address.down()
  }
  beforeAll(async () => {
    const parent = await mkdtemp(join(tmpdir(), 'platen-restart-'))
    await chmod(parent, 0o711)
    directory = join(parent, 'postgres')
    await start()
    const url = new URL(postgres.url)
    url.port = String(address.port)
    await migrate(url.href)
    platen = await startTestApp({
      limits: { lease_seconds: leaseSeconds, reaper_seconds: 0.1 },
      database: { url: url.href, [Symbol.asyncDispose]: async () => {} },
    })
  }, 60_000)
  afterAll(async () => {
    await platen[Symbol.asyncDispose]()
    address.down()
    await postgres.stop()
    await rm(directory, { recursive: true, force: true })
  })

  /** A lease has its length anew from every start of the server: wait until that is over. */
  const pastAmnesty = async () => {
    const query = `SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8 AS up`
    while ((await platen.query(query))[0].up < leaseSeconds + 0.2) await sleep(50)
  }

  it('repeats no work, however long it was away: the claim goes on', { timeout: 60_000 }, async () => {
    await pastAmnesty()
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    const claim = await worker.claim()
    await kill()
    // Longer than the lease.
    await sleep((leaseSeconds + 1) * 1000)
    expect(await worker.of(claim, 'heartbeat')).toMatchObject({ status: 503, body: { code: 'database_unavailable' } })
    await start()
    for (;;) {
      const answer = await worker.of(claim, 'heartbeat')
      if (answer.status === 200) break
      expect(answer.status).toBeGreaterThanOrEqual(500)
      await sleep(100)
    }
    expect(await worker.deliver(claim)).toMatchObject({ status: 200 })
    expect(await user.finished(job.id)).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
  })

  it('gives work to others as always when nobody renews after it', { timeout: 60_000 }, async () => {
    await pastAmnesty()
    const user = await platen.newUser()
    const [lost, other] = [platen.newWorker(), platen.newWorker()]
    await lost.open()
    await other.open()
    await user.build(await user.newProject(article))
    const claim = await lost.claim()
    await kill()
    await start()
    const again = await other.claim()
    expect(again).toMatchObject({ job_id: claim.job_id, attempt: 2 })
    expect(await lost.of(claim, 'heartbeat')).toMatchObject({ status: 409, body: { code: 'claim_lost' } })
    await other.deliver(again)
  })
})
