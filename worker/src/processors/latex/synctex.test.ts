import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { rewriteSynctex } from './synctex.ts'

describe('a SyncTeX file', () => {
  it('names sources as the project does, and those of the system as they were', () => {
    const text = 'SyncTeX Version:1\nInput:1:/job/./chapters/é.tex\nInput:2:/usr/share/x.sty\nContent:\n(1,2:3\n'
    const rewritten = rewriteSynctex(gzipSync(Buffer.from(text)), '/job')
    expect(gunzipSync(rewritten ?? '').toString()).toBe(text.replace('/job/./chapters', 'chapters'))
  })

  it('is the same bytes for the same content', () => {
    const [a, b] = [gzipSync('Input:1:/job/a.tex\n', { level: 1 }), gzipSync('Input:1:/job/a.tex\n', { level: 9 })]
    expect(rewriteSynctex(a, '/job')).toEqual(rewriteSynctex(b, '/job'))
  })

  it('is nothing when it is none', () => expect(rewriteSynctex(Buffer.from('no'), '/job')).toBeNull())
})
