import type { Diagnostic, FailureClass, LimitName, OnError } from '../../protocol/index.ts'
import { needsDeployment } from './hints.ts'

export interface Evidence {
  readonly onError: OnError
  /** A whole PDF with pages is there. */
  readonly hasPdf: boolean
  readonly limit: { readonly name: LimitName; readonly value: number } | null
  readonly diagnostics: readonly Diagnostic[]
}

export type Verdict =
  | { readonly kind: 'completed' }
  | { readonly kind: 'failed'; readonly failureClass: FailureClass; readonly message: string }

/** What becomes of a run. Latexmk's exit code has no say: it is the same for a good document and for none. */
export function decideVerdict({ onError, hasPdf, limit, diagnostics }: Evidence): Verdict {
  // A document that was cut off may look whole.
  if (limit !== null) return { kind: 'failed', failureClass: 'resource_limit', message: limitMessage(limit) }
  const errors = diagnostics.filter((diagnostic) => diagnostic.severity === 'error')
  const [first] = errors
  if (first === undefined && hasPdf) return { kind: 'completed' }
  if (hasPdf && onError === 'publish') return { kind: 'completed' }
  const missing = errors.find((diagnostic) => needsDeployment(diagnostic.message))
  const cause = missing ?? first
  const count = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return {
    kind: 'failed',
    failureClass: missing ? 'unsupported_dependency' : 'processor_rejected',
    message: cause ? `${placed(cause)}${count}` : 'TeX made no document and did not say why; see the log.',
  }
}

const placed = ({ file, line, message }: Diagnostic): string =>
  `${file === null ? '' : `${file}:${line === null ? '' : `${line}:`} `}${message}`

const units: Readonly<Record<LimitName, (value: number) => string>> = {
  wall_seconds: (value) => `${value} seconds of time`,
  cpu_seconds: (value) => `${value} seconds of CPU time`,
  memory_bytes: (value) => `${value} bytes of memory`,
  processes: (value) => `${value} processes`,
  file_bytes: (value) => `${value} bytes in one file`,
  workspace_bytes: (value) => `${value} bytes on disk`,
  workspace_files: (value) => `${value} files`,
  output_bytes: (value) => `${value} bytes of output`,
}

const limitMessage = ({ name, value }: { name: LimitName; value: number }): string =>
  `The build reached its limit of ${units[name](value)} and was stopped.`
