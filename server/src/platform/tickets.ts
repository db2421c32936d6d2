import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'

/**
 * Short-lived rights that need no row: what they are for and until when, signed with a key of this deployment. Whoever
 * honours one still asks the database whether the right behind it stands.
 */
export class Tickets<Payload> {
  readonly #key: Buffer
  readonly #schema: z.ZodType<{ expires: number; payload: Payload }>
  readonly #now: () => number

  /** @param purpose separates the kinds: a ticket of one never opens another */
  constructor(secret: string, purpose: string, payload: z.ZodType<Payload>, now: () => number = Date.now) {
    this.#key = deriveKey(secret, `ticket:${purpose}`)
    this.#schema = z.strictObject({ expires: z.number(), payload }) as unknown as z.ZodType<{
      expires: number
      payload: Payload
    }>
    this.#now = now
  }

  mint(payload: Payload, seconds: number): string {
    const body = Buffer.from(JSON.stringify({ expires: this.#now() + seconds * 1000, payload })).toString('base64url')
    return `${body}.${this.#sign(body).toString('base64url')}`
  }

  /** The payload, or null for anything that was not minted here for this purpose or is over. */
  open(ticket: string): Payload | null {
    const [body, signature, ...more] = ticket.split('.')
    if (!body || !signature || more.length > 0) return null
    const given = Buffer.from(signature, 'base64url')
    const own = this.#sign(body)
    if (given.length !== own.length || !timingSafeEqual(given, own)) return null
    const parsed = this.#schema.safeParse(JSON.parse(Buffer.from(body, 'base64url').toString()))
    return parsed.success && parsed.data.expires > this.#now() ? parsed.data.payload : null
  }

  #sign(body: string): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}

/** A key for one purpose from the deployment's secret. */
export const deriveKey = (secret: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, 'platen', purpose, 32))
