import { expect, test } from 'vitest'
import { lifecyclePage } from './reference-lifecycle.ts'
import { commentsOf, limitsPage, readable } from './reference-limits.ts'

test('the lifecycle page shows each move as an arrow and as a row', () => {
  const page = lifecyclePage({ queued: { claimed: 'running' }, running: { failedForGood: 'failed' }, failed: {} })
  expect(page).toContain(
    '[*] --> queued\n  queued --> running: claimed\n  running --> failed: failed for good\n  failed --> [*]',
  )
  expect(page).toContain('| `running` | failed for good | `failed` |')
  expect(page).toContain('`failed` are final')
})

test('the reason of a limit is the comment above it', () => {
  const source = `
    /** Another object. */
    const other = { queuedJobs: 1 }
    export const limits = {
      /** Waiting in all;
       *  more are refused. */
      queuedJobs: 5,
      plain: 6,
    } as const satisfies Record<string, number>`
  expect([...commentsOf(source, 'limits')]).toEqual([
    ['queuedJobs', 'Waiting in all; more are refused.'],
    ['plain', ''],
  ])
})

test('the limits page uses the names of the deployment file', () => {
  const page = limitsPage({ queuedJobs: 1000 }, new Map([['queuedJobs', 'Waiting.']]), {
    'a/v1': { wall_seconds: 60 },
    'b/v1': { wall_seconds: 60 },
  })
  expect(page).toContain('| `queued_jobs` | 1,000 | Waiting. |')
  expect(page).toContain(
    '### `[operations."a/v1"]`, `[operations."b/v1"]`\n\n| key | default |\n| --- | --- |\n| `wall_seconds` | 60 |',
  )
})

test.each([
  ['uploadBytes', 256 * 1024 * 1024, '256 MiB'],
  ['memory_bytes', 2 * 1024 ** 3, '2 GiB'],
  ['odd_bytes', 1500, '1,500'],
  ['queueWaitSeconds', 86_400, '86,400 (24 h)'],
  ['uploadTicketSeconds', 900, '900 (15 min)'],
  ['leaseSeconds', 20, '20'],
])('%s of %d reads %s', (name, value, text) => {
  expect(readable(name, value)).toBe(text)
})
