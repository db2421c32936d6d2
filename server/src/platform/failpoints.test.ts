import { describe, expect, it } from 'vitest'
import { noFailpoints, parseFailpoints } from './failpoints.ts'

describe('failpoints', () => {
  it('do nothing where none is set', () => {
    expect(noFailpoints.hit('claim.before-commit')).toBeUndefined()
    expect(parseFailpoints('').hit('claim.before-commit')).toBeUndefined()
    expect(parseFailpoints('claim.after-commit=error').hit('claim.before-commit')).toBeUndefined()
  })

  it('act at the hit that they name, once', async () => {
    const failpoints = parseFailpoints('claim.after-commit=error@2')
    expect(failpoints.hit('claim.after-commit')).toBeUndefined()
    await expect(failpoints.hit('claim.after-commit')).rejects.toMatchObject({ code: 'FAILPOINT' })
    expect(failpoints.hit('claim.after-commit')).toBeUndefined()
  })

  it('act at each hit with an asterisk, and may be several', async () => {
    const failpoints = parseFailpoints('a.before-commit=error*,b.after-commit=wait:0')
    for (let hit = 0; hit < 3; hit += 1) await expect(failpoints.hit('a.before-commit')).rejects.toThrow('on purpose')
    await expect(failpoints.hit('b.after-commit')).resolves.toBeUndefined()
  })

  it.each(['claim', 'claim.after=explode', 'claim.after-commit', 'a.b=kill@x'])('are refused as %s', (text) => {
    expect(() => parseFailpoints(text)).toThrow('is not a failpoint')
  })
})
