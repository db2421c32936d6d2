import type { FileHandle } from 'node:fs/promises'
import type { LimitName, Limits } from '../protocol/index.ts'

/** A program to run on a workspace. */
export interface Program {
  /** Absolute path. */
  readonly command: string
  readonly args: readonly string[]
  /** All of its environment. */
  readonly environment: Readonly<Record<string, string>>
  /** Below {@link Workspace.projectPath}; empty for the project itself. */
  readonly directory: string
}

/** How a program ended. Whatever way it was, none of its processes is left. */
export type Exit =
  | { readonly kind: 'exited'; readonly code: number; readonly output: string; readonly usage: Usage }
  /** It reached a bound and was killed. */
  | {
      readonly kind: 'limit'
      readonly limit: { readonly name: LimitName; readonly value: number }
      readonly output: string
      readonly usage: Usage
    }
  /** The signal was aborted and it was killed. */
  | { readonly kind: 'aborted' }

export interface Usage {
  readonly wallSeconds: number
  readonly cpuSeconds: number
  readonly peakMemoryBytes: number
}

/** The place of one attempt: a project that programs may change, and a state directory beside it. */
export interface Workspace extends AsyncDisposable {
  /** Host directories. What is put there before the first {@link run} is what programs find. */
  readonly hostProject: string
  readonly hostState: string
  /** The same as programs see them. */
  readonly projectPath: string
  readonly statePath: string
  /** Runs one program; one at a time. Standard output and error are kept as one text, its end when it is long. */
  run(program: Program): Promise<Exit>
  /**
   * Opens what a program left at a path of the project, or null if there is no plain file of at most `maxBytes`: the
   * path is walked without following a link.
   */
  openResult(path: string, maxBytes: number): Promise<FileHandle | null>
}

/** Runs programs that may be hostile, within bounds. */
export interface Executor {
  readonly kind: 'bubblewrap' | 'subprocess'
  /** Takes one of the executor's slots. */
  open(options: { readonly limits: Limits; readonly signal: AbortSignal }): Promise<Workspace>
}

export interface ExecutorOptions {
  /** Where workspaces are made. */
  readonly temporaryDirectory: string
  /** Workspaces that are open at once. */
  readonly slots: number
}

export type ExecutorReadiness =
  | { readonly ready: true; readonly executor: Executor }
  /** One sentence that says what is missing and what to do. */
  | { readonly ready: false; readonly reason: string }
