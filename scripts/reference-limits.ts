import ts from 'typescript'

type Numbers = Readonly<Record<string, number>>

const snakeCase = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const reasonOf = (property: ts.ObjectLiteralElementLike): string =>
  ts
    .getJSDocCommentsAndTags(property)
    .map((comment) => ts.getTextOfJSDocComment(comment.comment) ?? '')
    .join(' ')
    .replaceAll(/\s+/g, ' ')

/** The comment above each property of the object that the constant `name` is initialised with. */
export function commentsOf(source: string, name: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  const visit = (node: ts.Node): void => {
    const constant = ts.isVariableDeclaration(node) && node.name.getText() === name
    if (constant && node.initializer) collect(node.initializer)
    else ts.forEachChild(node, visit)
  }
  const collect = (node: ts.Node): void => {
    if (ts.isObjectLiteralExpression(node)) {
      for (const property of node.properties) if (property.name) found.set(property.name.getText(), reasonOf(property))
    } else {
      ts.forEachChild(node, collect)
    }
  }
  visit(ts.createSourceFile('limits.ts', source, ts.ScriptTarget.Latest, true))
  return found
}

const mebi = 1024 * 1024

/** Bytes in the largest binary unit that divides them, seconds in minutes or hours when whole. */
export function readable(name: string, value: number): string {
  const plain = value.toLocaleString('en-US')
  if (/bytes$/i.test(name))
    return value % (1024 * mebi) === 0
      ? `${value / (1024 * mebi)} GiB`
      : value % mebi === 0
        ? `${value / mebi} MiB`
        : plain
  if (/seconds$/i.test(name) && value >= 3600 && value % 3600 === 0) return `${plain} (${value / 3600} h)`
  if (/seconds$/i.test(name) && value >= 120 && value % 60 === 0) return `${plain} (${value / 60} min)`
  return plain
}

/** The page of every number of a deployment, printed from the sources that hold them. */
export function limitsPage(
  limits: Numbers,
  reasons: ReadonlyMap<string, string>,
  bounds: Readonly<Record<string, Numbers>>,
): string {
  const rows = Object.entries(limits).map(
    ([name, value]) => `| \`${snakeCase(name)}\` | ${readable(name, value)} | ${reasons.get(name) ?? ''} |`,
  )
  const groups = Object.values(Object.groupBy(Object.entries(bounds), ([, values]) => JSON.stringify(values)))
  const operations = groups.flatMap((group = []) => [
    '',
    `### ${group.map(([operation]) => `\`[operations."${operation}"]\``).join(', ')}`,
    '',
    '| key | default |',
    '| --- | --- |',
    ...Object.entries(group[0]?.[1] ?? {}).map(([name, value]) => `| \`${name}\` | ${readable(name, value)} |`),
  ])
  return `${[
    '# Limits',
    '',
    'Generated from `server/src/config/limits.ts` and the deployment schema by `npm run generate`.',
    '',
    'Keys under `[limits]` in the deployment file; the unit is in the name, a size in bytes is written in full there.',
    '',
    '| key | default | what it bounds |',
    '| --- | --- | --- |',
    ...rows,
    '',
    '## Bounds of one attempt',
    '',
    'Keys under an operation. A processor that reaches one is stopped and the job fails as `resource_limit`.',
    ...operations,
  ].join('\n')}\n`
}
