/** What a document asks of the worker of the soak. */
export interface SoakTask {
  readonly milliseconds: number
  readonly outcome: 'good' | 'rejected' | 'transient'
  /** Comes back in the result: nobody else's may. */
  readonly marker: string
}

export const writeTask = ({ milliseconds, outcome, marker }: SoakTask): string =>
  `% ${milliseconds} ${outcome} ${marker}\n\\documentclass{article}\\begin{document}${marker}\\end{document}\n`

export function readTask(text: string): SoakTask {
  const [, milliseconds, outcome, marker] = /^% (\d+) (\w+) ([\w-]+)$/m.exec(text) ?? []
  if (!marker) throw new Error('this is not a document of the soak')
  return { milliseconds: Number(milliseconds), outcome: outcome as SoakTask['outcome'], marker }
}
