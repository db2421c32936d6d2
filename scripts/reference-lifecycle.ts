type Moves = Readonly<Record<string, Readonly<Record<string, string>>>>

const words = (event: string) => event.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

function diagram(moves: Moves): string[] {
  const arrows = Object.entries(moves).flatMap(([from, events]) =>
    Object.entries(events).map(([event, to]) => `  ${from} --> ${to}: ${words(event)}`),
  )
  const ends = Object.keys(moves).filter((state) => Object.keys(moves[state] ?? {}).length === 0)
  return [
    '```mermaid',
    'stateDiagram-v2',
    `  [*] --> ${Object.keys(moves)[0]}`,
    ...arrows,
    ...ends.map((end) => `  ${end} --> [*]`),
    '```',
  ]
}

function table(moves: Moves): string[] {
  const rows = Object.entries(moves).flatMap(([from, events]) =>
    Object.entries(events).map(([event, to]) => `| \`${from}\` | ${words(event)} | \`${to}\` |`),
  )
  return ['| from | when | to |', '| --- | --- | --- |', ...rows]
}

/** The page about a job's states, printed from the one table that decides them. */
export function lifecyclePage(moves: Moves): string {
  const ends = Object.entries(moves).flatMap(([state, events]) =>
    Object.keys(events).length === 0 ? [`\`${state}\``] : [],
  )
  return `${[
    '# Lifecycle of a job',
    '',
    'Generated from `server/src/contexts/processing/domain/lifecycle.ts` by `npm run generate`.',
    '',
    `A job moves only as this page says; the database refuses the rest. ${ends.join(', ')} are final: a job in one of them never changes again.`,
    '',
    ...diagram(moves),
    '',
    ...table(moves),
  ].join('\n')}\n`
}
