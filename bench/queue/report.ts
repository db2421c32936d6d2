import { median, table } from '../statistics.ts'

/** What a part of the bench found. */
export interface Part {
  readonly title: string
  readonly text: string
  readonly data: unknown
}

export const verdict = (met: boolean): string => (met ? 'met' : 'missed')

/** Median of a figure over the rounds, with its spread. */
export function spread(values: readonly number[], digits = 2): string {
  if (values.length === 0) return '–'
  const ends = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits))
  return `${median(values).toFixed(digits)} (${ends.join(' – ')})`
}

export const figures = (rows: readonly (readonly [what: string, figure: string, aim: string, result: string])[]) =>
  table([['what', 'figure', 'aim', ''], ...rows])

/** Numbers with thousands apart. */
export const whole = (value: number): string => Math.round(value).toLocaleString('en')
