export { Access, type Viewer } from './commands/access.ts'
export { type ProjectAction, type ProjectRole, projectRoles } from './domain/policy.ts'
