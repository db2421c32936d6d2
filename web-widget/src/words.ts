import type { Task } from './types.ts'

const phases: Readonly<Record<string, string>> = {
  CAPTURING_INPUT: 'Capturing the project',
  WAITING_FOR_WORKER: 'Waiting for a worker',
  PROCESSING: 'Compiling',
  UPLOADING_RESULT: 'Uploading the result',
  VALIDATING_RESULT: 'Checking the result',
  PUBLISHING_RESULT: 'Publishing',
}

/** The steps of a task, in their order: what a bar can honestly show. */
export const steps = Object.keys(phases)

const reasons: Readonly<Record<string, string>> = {
  NO_WORKER: 'no worker serves this now',
  RETRY_BACKOFF: 'another attempt starts in a moment',
  REQUESTER_LIMIT: 'you have as many running as you may',
  PROJECT_LIMIT: 'this project has as many running as it may',
  CAPACITY: 'all workers are busy',
}

const failures: Readonly<Record<string, string>> = {
  INVALID_INPUT: 'Cannot be built as it is',
  PROCESSOR_REJECTED: 'Has errors',
  UNSUPPORTED_DEPENDENCY: 'Needs something that is not installed',
  RESOURCE_LIMIT: 'Stopped at a limit',
  TRANSIENT_INFRASTRUCTURE: 'The service failed',
  WORKER_INTERRUPTED: 'Workers were lost',
  CONTRACT_VIOLATION: 'The service failed',
}

const operations: Readonly<Record<string, string>> = {
  'latex.compile.pdf/v1': 'LaTeX to PDF',
  'typst.export.pptx/v1': 'Typst to PowerPoint',
  'pptx.import.typst/v1': 'PowerPoint to Typst',
}

export const titleOf = (task: Task): string => task.project?.name ?? 'A project you no longer see'
export const operationOf = (task: Task): string => operations[task.operation] ?? task.operation

/** What is going on, or what came of it. */
export function statusOf(task: Task): string {
  if (task.phase !== null) {
    if (task.cancelRequested) return 'Stopping'
    const words = phases[task.phase] ?? 'Working'
    const why = task.waitingReason ? reasons[task.waitingReason] : undefined
    const attempt = task.attempt > 1 ? ` · attempt ${task.attempt}` : ''
    return `${words}${why ? `: ${why}` : ''}${attempt}`
  }
  if (task.state === 'SUCCEEDED') {
    const errors = task.diagnostics.filter((diagnostic) => diagnostic.severity === 'ERROR').length
    const warnings = task.diagnostics.filter((diagnostic) => diagnostic.severity === 'WARNING').length
    if (errors > 0) return `Published with ${counted(errors, 'error')}`
    return warnings > 0 ? `Done, ${counted(warnings, 'warning')}` : 'Done'
  }
  if (task.state === 'FAILED') return failures[task.failure?.class ?? ''] ?? 'Failed'
  return task.state === 'CANCELLED' ? 'Cancelled' : 'Waited too long'
}

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** A span of time as people say it. */
export function spanOf(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export function agoOf(moment: string, now: number): string {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000)
  if (seconds < 45) return 'just now'
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`
  return new Date(moment).toLocaleDateString()
}

export function sizeOf(bytes: string): string {
  const number = Number(bytes)
  if (number < 1000) return `${number} B`
  if (number < 1_000_000) return `${Math.round(number / 1000)} kB`
  return `${(number / 1_000_000).toFixed(1)} MB`
}
