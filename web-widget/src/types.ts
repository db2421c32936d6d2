export interface Diagnostic {
  readonly severity: 'ERROR' | 'WARNING' | 'INFO'
  readonly file: string | null
  readonly line: number | null
  readonly message: string
  readonly hint: string | null
}

export interface Artifact {
  readonly id: string
  readonly role: string
  readonly fileName: string
  readonly byteLength: string
  readonly downloadUrl: string
}

export interface Task {
  readonly id: string
  readonly operation: string
  readonly state: string
  readonly phase: string | null
  readonly version: string
  readonly attempt: number
  readonly createdAt: string
  readonly finishedAt: string | null
  readonly waitingReason: string | null
  readonly cancelRequested: boolean
  readonly project: { readonly id: string; readonly name: string } | null
  readonly failure: { readonly class: string; readonly message: string } | null
  readonly diagnostics: readonly Diagnostic[]
  readonly artifacts: readonly Artifact[]
}

const endStates = ['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED']
export const isActive = (task: Task): boolean => !endStates.includes(task.state)
