import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { manifestOf } from '../domain/bundle.ts'
import { packBundle } from './pack-bundle.ts'

// What ends the process of Core ends a test run too: an error event or a rejection that nobody listens to fails these.
describe('packing a bundle', () => {
  const fileOf = (path: string, bytes: Buffer) => ({
    path,
    kind: 'asset' as const,
    byteLength: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  })
  const small = Buffer.from('\\documentclass{article}')
  const large = Buffer.alloc(1024 * 1024, 7)
  const files = [fileOf('a.tex', small), fileOf('b.png', large), fileOf('c.tex', small)]
  const contents: Record<string, Buffer> = { 'a.tex': small, 'b.png': large, 'c.tex': small }
  const manifest = manifestOf({
    projectType: 'LATEX',
    engine: 'pdflatex',
    entryPath: 'a.tex',
    sourceEpoch: null,
    generation: 1,
    files,
  })
  function* chunks(bytes: Buffer): Generator<Buffer> {
    for (let at = 0; at < bytes.length; at += 64 * 1024) yield bytes.subarray(at, at + 64 * 1024)
  }
  const whole = ({ path }: { path: string }) => chunks(contents[path] as Buffer)

  async function packed(
    content: (file: { path: string }) => Iterable<Buffer> | AsyncIterable<Buffer>,
  ): Promise<Buffer> {
    const parts: Uint8Array[] = []
    for await (const chunk of packBundle(manifest, files, content)) parts.push(chunk)
    return Buffer.concat(parts)
  }

  it('gives the same bytes for the same files', async () => {
    const [first, second] = [await packed(whole), await packed(whole)]
    expect(first.equals(second)).toBe(true)
    expect(first.length).toBeGreaterThan(large.length)
  })

  it.each(['a.tex', 'b.png', 'c.tex'])('breaks off when %s cannot be read', async (path) => {
    async function* broken(bytes: Buffer): AsyncGenerator<Buffer> {
      for (const chunk of [...chunks(bytes)].slice(0, 2)) {
        yield chunk
        await turn()
      }
      throw new Error('the connection was lost')
    }
    await expect(
      packed((file) => (file.path === path ? broken(contents[path] as Buffer) : whole(file))),
    ).rejects.toThrow('the connection was lost')
    await turn()
  })

  it('breaks off when a file cannot be read at all', async () => {
    await expect(
      packed((file) => {
        if (file.path === 'b.png') throw new Error('there is no such blob')
        return whole(file)
      }),
    ).rejects.toThrow('there is no such blob')
    await turn()
  })

  it.each([
    ['shorter', (bytes: Buffer) => bytes.subarray(1)],
    ['longer', (bytes: Buffer) => Buffer.concat([bytes, small])],
    ['other', (bytes: Buffer) => Buffer.from(bytes).fill(1)],
  ])('refuses a file whose bytes are %s than its digest says', async (_how, change) => {
    await expect(packed((file) => (file.path === 'b.png' ? chunks(change(large)) : whole(file)))).rejects.toThrow(
      'a frozen file is not what its digest says',
    )
    await turn()
  })

  it('stops reading when nobody wants the rest', async () => {
    let read = 0
    let closed = false
    function* counted(bytes: Buffer): Generator<Buffer> {
      try {
        for (const chunk of chunks(bytes)) {
          read += chunk.length
          yield chunk
        }
      } finally {
        closed = true
      }
    }
    for await (const _chunk of packBundle(manifest, files, (file) =>
      file.path === 'b.png' ? counted(large) : whole(file),
    )) {
      if (read > 0) break
    }
    await expect.poll(() => closed).toBe(true)
    expect(read).toBeLessThan(large.length)
  })
})
