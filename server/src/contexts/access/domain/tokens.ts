import { newSecret, sha256Hex } from '../../../platform/ids.ts'

const pattern = /^pl_[A-Za-z0-9_-]{43}$/

/** A new API token: 256 random bits behind a prefix that secret scanners can look for. */
export const newApiToken = (): string => `pl_${newSecret()}`

export const isApiToken = (text: string): boolean => pattern.test(text)

/** What is stored. The token has full entropy, so a plain digest is enough and its look-up leaks nothing by time. */
export const tokenDigest = (token: string): string => sha256Hex(token)
