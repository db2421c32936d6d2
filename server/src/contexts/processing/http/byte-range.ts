/** First byte and one past the last. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * The single range a client asks for (RFC 9110 §14).
 *
 * @returns `whole` for no range, a malformed one or several, which a server may ignore; `unsatisfiable` past the end
 */
export function parseByteRange(header: string | undefined, length: number): ByteRange | 'whole' | 'unsatisfiable' {
  const match = /^bytes=(\d*)-(\d*)$/i.exec(header?.replaceAll(/[ \t]/g, '') ?? '')
  if (!match) return 'whole'
  const [, first, last] = match as unknown as [string, string, string]
  if (first === '' && last === '') return 'whole'
  if (first === '') {
    const suffix = Number(last)
    if (suffix === 0 || length === 0) return 'unsatisfiable'
    return { start: Math.max(0, length - suffix), end: length }
  }
  const start = Number(first)
  if (last !== '' && Number(last) < start) return 'whole'
  if (start >= length) return 'unsatisfiable'
  return { start, end: last === '' ? length : Math.min(Number(last) + 1, length) }
}
