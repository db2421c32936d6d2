import ts from 'typescript'

/** A string or template literal, with each `${…}` replaced by `?`. */
export interface Literal {
  readonly line: number
  readonly text: string
}

const isStatement = (text: string) => /\b(SELECT|INSERT|UPDATE|DELETE|FROM|JOIN|WITH|TABLE)\b/.test(text)

function literalText(node: ts.Node): string | undefined {
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text
  if (ts.isTemplateExpression(node))
    return [node.head, ...node.templateSpans.map((span) => span.literal)].map((part) => part.text).join('?')
  return undefined
}

/** The literals of a TypeScript source that hold SQL, and those tagged `sql`, however short. */
export function sqlTexts(source: string): Literal[] {
  const file = ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest, true)
  const found: Literal[] = []
  const visit = (node: ts.Node): void => {
    const text = literalText(node)
    const tagged = ts.isTaggedTemplateExpression(node.parent) && node.parent.tag.getText(file).startsWith('sql')
    if (text !== undefined && (tagged || isStatement(text))) {
      found.push({ text, line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1 })
    }
    ts.forEachChild(node, visit)
  }
  ts.forEachChild(file, visit)
  return found
}
