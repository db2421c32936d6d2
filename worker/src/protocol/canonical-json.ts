/**
 * Serializes a JSON value as RFC 8785 (JSON Canonicalization Scheme) demands: no white space, object names sorted by
 * UTF-16 code units, strings and numbers as ECMAScript prints them.
 *
 * @throws TypeError for what has no canonical form: lone surrogates, non-finite numbers, `undefined`, functions, cycles.
 */
export function canonicalJson(value: unknown): string {
  return serialize(value, [])
}

function serialize(value: unknown, ancestors: readonly object[]): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`${value} has no canonical JSON form; use a finite number or null`)
    return JSON.stringify(value)
  }
  if (typeof value !== 'object') throw new TypeError(`a ${typeof value} has no canonical JSON form; remove it`)
  if (ancestors.includes(value)) throw new TypeError('a cyclic value has no canonical JSON form; remove the cycle')
  const inside = [...ancestors, value]
  if (Array.isArray(value)) return `[${Array.from(value, (item) => serialize(item, inside)).join(',')}]`
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${quoted(name)}:${serialize(member, inside)}`).join(',')}}`
}

function quoted(text: string): string {
  if (!text.isWellFormed()) throw new TypeError('a string with a lone surrogate has no canonical JSON form; remove it')
  return JSON.stringify(text)
}
