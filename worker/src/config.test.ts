import { describe, expect, it } from 'vitest'
import { readWorkerConfig } from './config.ts'

const token = `plw_local.${'x'.repeat(43)}`
const sound = { PLATEN_CORE_URL: 'http://127.0.0.1:4000', PLATEN_WORKER_TOKEN: token }

describe("the worker's environment", () => {
  it('needs an address and a token; the rest has defaults', () => {
    expect(readWorkerConfig(sound)).toMatchObject({
      coreUrl: sound.PLATEN_CORE_URL,
      workerToken: token,
      slots: 2,
      executor: 'bubblewrap',
      drainSeconds: 20,
    })
  })

  const wrong: readonly (readonly [variables: Record<string, string>, name: string])[] = [
    [{ PLATEN_CORE_URL: 'localhost' }, 'PLATEN_CORE_URL'],
    [{ PLATEN_WORKER_TOKEN: 'plw_secret' }, 'PLATEN_WORKER_TOKEN'],
    [{ PLATEN_WORKER_SLOTS: 'many' }, 'PLATEN_WORKER_SLOTS'],
    [{ PLATEN_WORKER_SLOTS: '0' }, 'PLATEN_WORKER_SLOTS'],
    [{ PLATEN_EXECUTOR: 'docker' }, 'PLATEN_EXECUTOR'],
    [{ PLATEN_DRAIN_SECONDS: '-1' }, 'PLATEN_DRAIN_SECONDS'],
  ]
  it.each(wrong)('refuses %j by name and without its value', (variables, name) => {
    const value = Object.values(variables)[0] as string
    const read = () => readWorkerConfig({ ...sound, ...variables })
    expect(read).toThrow(`${name}: `)
    if (value.length > 3) expect(read).not.toThrow(value)
  })

  it('names all that is wrong at once', () => {
    expect(() => readWorkerConfig({})).toThrow(/PLATEN_CORE_URL[\s\S]*PLATEN_WORKER_TOKEN/)
  })
})
