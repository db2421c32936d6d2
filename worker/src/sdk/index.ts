export type { Diagnostic, Limits, ProjectManifest } from '../protocol/index.ts'
export { type Executor, type Exit, hostCommand, type Program, type Workspace } from '../sandbox/index.ts'
export type { Outcome, Processor, Readiness, ResultFile, Task } from './processor.ts'
export { startWorker } from './start-worker.ts'
