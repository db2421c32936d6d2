export { applySync, exactText, planSync, type SyncPlan } from './sync-folder.ts'
export { type LocalFile, type Walk, walkProject } from './walk.ts'
