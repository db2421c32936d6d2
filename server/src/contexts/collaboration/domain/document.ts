import { createHash } from 'node:crypto'
import * as Y from 'yjs'

/** Name of the shared text inside every document: what editors bind to. */
const textName = 'content'

export interface Projection {
  readonly text: string
  readonly sha256: string
  readonly byteLength: number
}

export function describeText(text: string): Projection {
  const bytes = Buffer.from(text, 'utf8')
  return { text, sha256: createHash('sha256').update(bytes).digest('hex'), byteLength: bytes.length }
}

export function project(state: Uint8Array): Projection {
  const document = new Y.Doc()
  Y.applyUpdate(document, state)
  return describeText(document.getText(textName).toString())
}

/** A first state with this text. */
export function newState(text: string): Uint8Array {
  const document = new Y.Doc()
  document.getText(textName).insert(0, text)
  return Y.encodeStateAsUpdate(document)
}

/**
 * The state after someone wrote `text` over the document: only what lies between the common start and end is
 * replaced, so that cursors and concurrent edits outside of it stay where they are.
 */
export function replaceText(state: Uint8Array, text: string): Uint8Array {
  const document = new Y.Doc()
  Y.applyUpdate(document, state)
  const shared = document.getText(textName)
  const before = shared.toString()
  let start = 0
  const shortest = Math.min(before.length, text.length)
  while (start < shortest && before.charCodeAt(start) === text.charCodeAt(start)) start += 1
  if (start > 0 && isHighSurrogate(before.charCodeAt(start - 1))) start -= 1
  let end = 0
  while (
    end < shortest - start &&
    before.charCodeAt(before.length - 1 - end) === text.charCodeAt(text.length - 1 - end)
  ) {
    end += 1
  }
  if (end > 0 && isLowSurrogate(before.charCodeAt(before.length - end))) end -= 1
  document.transact(() => {
    shared.delete(start, before.length - end - start)
    shared.insert(start, text.slice(start, text.length - end))
  })
  return Y.encodeStateAsUpdate(document)
}

// A cut inside a surrogate pair would leave half a character in two updates.
const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
