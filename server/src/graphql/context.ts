import DataLoader from 'dataloader'
import type { Access, ProjectRole, Viewer } from '../contexts/access/index.ts'
import type { Artifact, Processing, VisibleJob, WaitingReason } from '../contexts/processing/index.ts'
import type { Project, ProjectFile, Workspace } from '../contexts/workspace/index.ts'

export interface Services {
  readonly access: Access
  readonly workspace: Workspace
  readonly processing: Processing
}

/** What every resolver is given: who asks, the contexts' facades, and reads that are batched by tick. */
export interface Context extends Services {
  readonly viewer: Viewer
  readonly loaders: Loaders
}

export interface Loaders {
  readonly project: DataLoader<string, Project | null>
  readonly role: DataLoader<string, ProjectRole | null>
  readonly files: DataLoader<string, readonly ProjectFile[]>
  readonly job: DataLoader<string, VisibleJob | null>
  readonly artifacts: DataLoader<string, readonly Artifact[]>
  readonly waitingReason: DataLoader<VisibleJob, WaitingReason | null>
}

export function createContext(services: Services, viewer: Viewer): Context {
  return { ...services, viewer, loaders: createLoaders(services, viewer) }
}

// Batched but not cached: a subscription keeps its context for as long as it lives, and must not keep its first reads.
const uncached = { cache: false } as const

function createLoaders({ access, workspace, processing }: Services, viewer: Viewer): Loaders {
  return {
    project: new DataLoader(async (ids) => {
      const found = byKey(await workspace.projects.visible(viewer.id, ids), (project) => project.id)
      return ids.map((id) => found.get(id) ?? null)
    }, uncached),
    role: new DataLoader(async (ids) => {
      const found = byKey(await access.roles(viewer.id, ids), (row) => row.projectId)
      return ids.map((id) => found.get(id)?.role ?? null)
    }, uncached),
    files: new DataLoader(async (ids) => {
      const found = Map.groupBy(await workspace.files.list(ids), (file) => file.projectId)
      return ids.map((id) => found.get(id) ?? [])
    }, uncached),
    job: new DataLoader(async (ids) => {
      const found = byKey(await processing.jobs.visible(viewer.id, ids), (job) => job.id)
      return ids.map((id) => found.get(id) ?? null)
    }, uncached),
    artifacts: new DataLoader(async (ids) => {
      const found = Map.groupBy(await processing.jobs.artifactsOf(ids), (artifact) => artifact.jobId)
      return ids.map((id) => found.get(id) ?? [])
    }, uncached),
    waitingReason: new DataLoader(async (jobs) => {
      const found = await processing.jobs.waitingReasons(jobs)
      return jobs.map((job) => found.get(job.id) ?? null)
    }, uncached),
  }
}

/** One load for all; unlike `loadMany`, it fails when any of them does. */
export const loadEach = <T>(loader: DataLoader<string, T>, ids: readonly string[]): Promise<T[]> =>
  Promise.all(ids.map((id) => loader.load(id)))

const byKey = <T>(rows: readonly T[], key: (row: T) => string): Map<string, T> =>
  new Map(rows.map((row) => [key(row), row]))
