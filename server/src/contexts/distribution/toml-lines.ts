/**
 * Where each key of a TOML text stands, for messages: tables and `key = value` lines are read, everything else is
 * skipped. A key that is not found has the line of its nearest table.
 *
 * @returns a function from a key's path to its 1-based line
 */
export function keyLines(text: string): (path: readonly string[]) => number {
  const lines = new Map<string, number>()
  let table: string[] = []
  for (const [index, line] of text.split('\n').entries()) {
    const header = /^\s*\[\[?\s*(.+?)\s*\]\]?\s*(#.*)?$/.exec(line)
    const assignment = /^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=/.exec(line)
    if (header?.[1]) {
      table = keyParts(header[1])
      note(lines, table, index + 1)
    } else if (assignment?.[1]) {
      note(lines, [...table, ...keyParts(assignment[1])], index + 1)
    }
  }
  return (path) => {
    for (let length = path.length; length > 0; length -= 1) {
      const line = lines.get(JSON.stringify(path.slice(0, length)))
      if (line !== undefined) return line
    }
    return 1
  }
}

function keyParts(key: string): string[] {
  return [...key.matchAll(/"([^"]*)"|'([^']*)'|([\w-]+)/g)].map(
    ([, double, single, bare]) => double ?? single ?? bare ?? '',
  )
}

function note(lines: Map<string, number>, path: readonly string[], line: number): void {
  const key = JSON.stringify(path)
  if (!lines.has(key)) lines.set(key, line)
}
