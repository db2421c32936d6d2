import type {
  ArtifactRole,
  Diagnostic,
  FailureClass,
  LimitName,
  Limits,
  Operation,
  ProjectManifest,
} from '../protocol/index.ts'
import type { Executor } from '../sandbox/executor.ts'

/** What a processor found on this host. */
export type Readiness =
  | {
      readonly ready: true
      /** SHA-256 over processor version and toolchain. */
      readonly contract: string
      /** Shown in `capabilities`; JSON, at most 256 KiB. */
      readonly facts: Record<string, unknown>
    }
  | {
      readonly ready: false
      /** One sentence that names what is missing and the command that installs it. */
      readonly reason: string
    }

/** One attempt, as a processor sees it: bytes and bounds, no identity, no credential. */
export interface Task {
  /** Operation-specific, validated by the agent's caller against the operation's schema. */
  readonly options: unknown
  readonly manifest: ProjectManifest
  /** Host directory holding exactly the manifest's files, each verified by length and digest. Read-only by contract. */
  readonly inputDirectory: string
  /** Host directory of this attempt where the processor leaves collected results. Empty at start, removed by the agent. */
  readonly resultDirectory: string
  readonly limits: Limits
  /** Aborted on cancellation, lease loss and shutdown: the processor kills its whole process tree and rejects. */
  readonly signal: AbortSignal
  readonly executor: Executor
}

export interface ResultFile {
  readonly role: ArtifactRole
  readonly mediaType: string
  /** A regular file in {@link Task.resultDirectory}. */
  readonly path: string
}

/** A transformation from one immutable input to a candidate result. */
export type Outcome =
  | { readonly kind: 'completed'; readonly results: readonly ResultFile[]; readonly diagnostics: readonly Diagnostic[] }
  | {
      readonly kind: 'failed'
      readonly failureClass: FailureClass
      /** One sentence for people. */
      readonly message: string
      readonly limit: { readonly name: LimitName; readonly value: number } | null
      readonly diagnostics: readonly Diagnostic[]
      /** Files that explain the failure, such as the log. */
      readonly results: readonly ResultFile[]
    }

export interface Processor {
  readonly operation: Operation
  readonly name: string
  readonly version: string
  /** Looks at the host. Called at start; may warm caches. */
  inspect(executor: Executor): Promise<Readiness>
  run(task: Task): Promise<Outcome>
}
