import type { WorkspaceParts } from './commands/context.ts'
import { Files } from './commands/files.ts'
import { Projects } from './commands/projects.ts'
import { Snapshots } from './commands/snapshots.ts'
import { Uploads } from './commands/uploads.ts'

export type { ProjectFile } from './commands/files.ts'
export { normalizePath } from './domain/project-tree.ts'
export type { ProjectType, SnapshotDescriptor } from './domain/snapshot.ts'
export type { Project, ProjectSettings } from './store/projects.ts'

export interface Workspace {
  readonly projects: Projects
  readonly files: Files
  readonly uploads: Uploads
  readonly snapshots: Snapshots
}

export function createWorkspace(parts: WorkspaceParts): Workspace {
  const projects = new Projects(parts)
  return {
    projects,
    files: new Files(parts, projects),
    uploads: new Uploads(parts),
    snapshots: new Snapshots(parts, projects),
  }
}
