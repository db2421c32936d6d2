import { describe, expect, it } from 'vitest'
import { defaultLimits } from '../../config/limits.ts'
import { parseDeployment } from './deployment.ts'

const digest = 'a'.repeat(64)
const sound = `
[operations."latex.compile.pdf/v1"]
enabled = true
wall_seconds = 30

[workers.local]
token_sha256 = "${digest}"
operations = ["latex.compile.pdf/v1"]

[limits]
queued_jobs = 7
`

describe('the deployment file', () => {
  it('gives operations, workers and limits', () => {
    const deployment = parseDeployment(sound, 'platen.toml')
    expect(deployment.operations.get('latex.compile.pdf/v1')).toMatchObject({ wall_seconds: 30, processes: 64 })
    expect(deployment.workers).toEqual([{ name: 'local', tokenSha256: digest, operations: ['latex.compile.pdf/v1'] }])
    expect(deployment.limits).toEqual({ ...defaultLimits, queuedJobs: 7 })
    expect(deployment.production).toBe(false)
  })

  it('leaves out an operation that is not enabled', () => {
    const text = sound.replace('enabled = true', 'enabled = false')
    expect(parseDeployment(text, 'platen.toml').operations.size).toBe(0)
  })

  it('may be empty', () => {
    expect(parseDeployment('', 'platen.toml').limits).toEqual(defaultLimits)
  })

  const refused: readonly (readonly [what: string, text: string, message: string])[] = [
    ['an unknown key', '[limits]\nqueued_job = 7\n', 'platen.toml:2: limits.queued_job: this key is not known'],
    ['an unknown operation', '\n[operations."latex/v9"]\n', 'platen.toml:2: operations.latex/v9:'],
    ['a wrong type', '[limits]\n\nqueued_jobs = "many"\n', 'platen.toml:3: limits.queued_jobs:'],
    [
      'a token in place of its digest',
      '[workers.local]\ntoken_sha256 = "plw_x"\noperations = ["latex.compile.pdf/v1"]\n',
      'platen.toml:2: workers.local.token_sha256: expected the SHA-256',
    ],
    [
      'a missing key, at its table',
      '# one\n[workers.local]\noperations = ["latex.compile.pdf/v1"]\n',
      'platen.toml:2: workers.local.token_sha256:',
    ],
    ['text that is not TOML', 'a = 1\nb = \n', 'platen.toml:2:'],
  ]
  for (const [what, text, message] of refused) {
    it(`names key and line of ${what}`, () => {
      expect(() => parseDeployment(text, 'platen.toml')).toThrow(message)
    })
  }
})
