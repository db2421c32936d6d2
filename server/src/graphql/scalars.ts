import { GraphQLError } from 'graphql'
import { builder } from './builder.ts'

const invalid = (message: string): GraphQLError => new GraphQLError(message, { extensions: { code: 'BAD_USER_INPUT' } })

builder.scalarType('DateTime', {
  description: 'A moment, as an RFC 3339 string in UTC.',
  serialize: (value) => value.toISOString(),
  parseValue: (value) => {
    const moment = typeof value === 'string' ? new Date(value) : null
    if (!moment || Number.isNaN(moment.getTime())) throw invalid('A DateTime is an RFC 3339 string.')
    return moment
  },
})

builder.scalarType('BigInt', {
  description:
    'A whole number that may exceed 32 bits, such as a number of bytes. Sent as a string of decimal digits; taken as one or as a number.',
  serialize: (value) => String(value),
  parseValue: (value) => {
    const number = typeof value === 'string' && /^-?\d{1,16}$/.test(value) ? Number(value) : value
    if (!Number.isSafeInteger(number)) throw invalid('A BigInt is a whole number, or a string of its digits.')
    return number as number
  },
})

builder.scalarType('Sha256', {
  description: 'A SHA-256 digest: 64 lower-case hexadecimal digits.',
  serialize: (value) => value,
  parseValue: (value) => {
    if (typeof value !== 'string' || !/^[0-9a-f]{64}$/.test(value))
      throw invalid('A Sha256 has 64 lower-case hexadecimal digits.')
    return value
  },
})
