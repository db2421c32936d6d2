/** As the API has them: sizes and versions are decimal strings, moments are RFC 3339. */
export type JobState =
  | 'PREPARING'
  | 'QUEUED'
  | 'RUNNING'
  | 'FINALIZING'
  | 'SUCCEEDED'
  | 'FAILED'
  | 'CANCELLED'
  | 'EXPIRED'

export type JobPhase =
  | 'CAPTURING_INPUT'
  | 'WAITING_FOR_WORKER'
  | 'PROCESSING'
  | 'UPLOADING_RESULT'
  | 'VALIDATING_RESULT'
  | 'PUBLISHING_RESULT'

export type WaitingReason = 'NO_WORKER' | 'REQUESTER_LIMIT' | 'PROJECT_LIMIT' | 'CAPACITY' | 'RETRY_BACKOFF'
export type LatexEngine = 'PDFLATEX' | 'XELATEX' | 'LUALATEX'
export type OnError = 'FAIL' | 'PUBLISH'
export type ProjectType = 'LATEX' | 'TYPST'

export interface Diagnostic {
  readonly severity: 'ERROR' | 'WARNING' | 'INFO'
  readonly file: string | null
  readonly line: number | null
  readonly message: string
  readonly context: string | null
  readonly hint: string | null
}

export interface Artifact {
  readonly id: string
  /** `PDF`, `LOG`, `SYNCTEX` and others that later servers may add. */
  readonly role: string
  readonly mediaType: string
  readonly fileName: string
  readonly byteLength: string
  readonly sha256: string
  /** A path of the server, good for a few minutes. */
  readonly downloadUrl: string
}

export interface Job {
  readonly id: string
  readonly operation: string
  readonly state: JobState
  readonly phase: JobPhase | null
  /** Grows with each change. */
  readonly version: string
  readonly attempt: number
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly waitingReason: WaitingReason | null
  readonly cancelRequested: boolean
  readonly project: { readonly id: string; readonly name: string } | null
  readonly failure: {
    readonly class: string
    readonly message: string
    readonly limit: { readonly name: string; readonly value: number } | null
  } | null
  readonly diagnostics: readonly Diagnostic[]
  readonly artifacts: readonly Artifact[]
  readonly inputDigest: string | null
  readonly processorContract: string | null
}

export interface ProjectFile {
  readonly path: string
  readonly kind: 'DOCUMENT' | 'ASSET'
  readonly byteLength: string
  readonly sha256: string
}

export interface Project {
  readonly id: string
  readonly name: string
  readonly type: ProjectType
  readonly files: readonly ProjectFile[]
}

export interface Capability {
  readonly operation: string
  readonly state: 'AVAILABLE' | 'WAITING'
  readonly processors: readonly {
    readonly name: string
    readonly version: string
    readonly contract: string
    readonly engines: readonly string[]
    readonly distribution: string | null
    readonly packages: readonly string[]
    readonly fonts: readonly string[]
  }[]
}

export const isFinished = (state: JobState): boolean =>
  state === 'SUCCEEDED' || state === 'FAILED' || state === 'CANCELLED' || state === 'EXPIRED'
