export { Access, type Viewer } from './commands/access.ts'
export type { ProjectRole } from './domain/policy.ts'
