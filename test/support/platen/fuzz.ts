import { randomUUID } from 'node:crypto'
import { z } from 'zod'

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
interface Schema {
  readonly type?: string
  readonly enum?: readonly Json[]
  readonly const?: Json
  readonly anyOf?: readonly Schema[]
  readonly format?: string
  readonly pattern?: string
  readonly minimum?: number
  readonly exclusiveMinimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxItems?: number
  readonly minItems?: number
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

/** What no field of the protocol takes, or not here. */
const odd: readonly Json[] = [
  null,
  true,
  -1,
  0.5,
  1e308,
  Number.MAX_SAFE_INTEGER + 2,
  '',
  ' ',
  '\u0000',
  '\ud800',
  '../../etc/passwd',
  "'; DROP TABLE processing.job; --",
  '💣'.repeat(3000),
  [],
  {},
  [[[[[[[[]]]]]]]],
  { $ref: '#' },
  { __proto__x: { polluted: true }, constructor: { prototype: {} } },
]

/** Bodies as a schema has them, and bodies that it has not. `random` is uniform in [0, 1). */
export class Bodies {
  readonly #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)] as T
  }

  valid(schema: z.ZodType): Json {
    return this.#value(z.toJSONSchema(schema, { unrepresentable: 'any' }) as Schema)
  }

  /** A body that the schema refuses. */
  invalid(schema: z.ZodType): Json {
    for (;;) {
      let body = this.valid(schema)
      for (let changes = 1 + Math.floor(this.#random() * 3); changes > 0; changes -= 1) body = this.#changed(body)
      if (!schema.safeParse(JSON.parse(JSON.stringify(body) ?? 'null')).success) return body
    }
  }

  #changed(value: Json): Json {
    if (this.#random() < 0.1) return this.pick(odd)
    if (Array.isArray(value)) {
      if (value.length === 0 || this.#random() < 0.3) return [...value, this.pick(odd)]
      const at = Math.floor(this.#random() * value.length)
      return value.map((each, index) => (index === at ? this.#changed(each) : each))
    }
    if (value === null || typeof value !== 'object') return this.pick(odd)
    const keys = Object.keys(value)
    const key = this.pick(keys)
    if (key === undefined || this.#random() < 0.15)
      return { ...value, [this.pick(['extra', 'id', 'claim_id'])]: this.pick(odd) }
    if (this.#random() < 0.3) return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
    return { ...value, [key]: this.#changed(value[key] as Json) }
  }

  #value(schema: Schema): Json {
    if (schema.const !== undefined) return schema.const
    if (schema.enum) return this.pick(schema.enum)
    if (schema.anyOf) return this.#value(this.pick(schema.anyOf))
    switch (schema.type) {
      case 'object':
        return Object.fromEntries(
          Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
            schema.required?.includes(name) || this.#random() < 0.5 ? [[name, this.#value(property)]] : [],
          ),
        )
      case 'array': {
        const length = Math.max(schema.minItems ?? 0, Math.floor(this.#random() * 3))
        return Array.from({ length }, () => this.#value(schema.items ?? {}))
      }
      case 'integer':
      case 'number':
        return Math.max(1, schema.minimum ?? schema.exclusiveMinimum ?? 0)
      case 'boolean':
        return this.#random() < 0.5
      case 'null':
        return null
      default:
        return this.#text(schema)
    }
  }

  #text({ format, pattern }: Schema): string {
    if (format === 'uuid') return randomUUID()
    if (pattern?.includes('{64}')) return 'a'.repeat(64)
    if (pattern?.includes('/')) return 'application/pdf'
    return this.pick(['text', 'ä', 'log'])
  }
}
