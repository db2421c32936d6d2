import { createHash, randomBytes, randomUUID } from 'node:crypto'

export const newId = (): string => randomUUID()

/** 256 random bits, URL-safe. */
export const newSecret = (): string => randomBytes(32).toString('base64url')

export const sha256Hex = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex')
