import type { ArtifactRole } from '@platen/worker/protocol'
import type { Logger } from 'pino'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import type { Database } from '../../../platform/database.ts'
import type { Signals } from '../../../platform/signals.ts'
import type { Tickets } from '../../../platform/tickets.ts'
import type { Access } from '../../access/index.ts'
import type { Deployment } from '../../distribution/index.ts'
import type { Workspace } from '../../workspace/index.ts'
import type { Validator } from '../validation/validator.ts'
import type { ProcessingMetrics } from './metrics.ts'
import type { SessionBook } from './session-book.ts'
import type { Waiters } from './waiters.ts'

export type Transfer =
  | { readonly kind: 'input'; readonly claim: string }
  | { readonly kind: 'output'; readonly claim: string; readonly role: ArtifactRole; readonly sha256: string }

export interface DownloadRight {
  readonly artifact: string
  readonly viewer: string
}

/** What Processing is given by the composition root. */
export interface ProcessingParts {
  readonly database: Database
  readonly access: Access
  readonly workspace: Workspace
  readonly blobs: BlobStore
  readonly deployment: Deployment
  readonly signals: Signals
  readonly transferTickets: Tickets<Transfer>
  readonly downloadTickets: Tickets<DownloadRight>
  /** Session tokens are made from it, so that a replayed answer can name the same one. */
  readonly sessionKey: Buffer
  readonly validator: Validator
  readonly metrics: ProcessingMetrics
  readonly log: Logger
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/** What the commands share beside it: what this replica remembers of sessions and of waiting calls. */
export interface Engine extends ProcessingParts {
  readonly book: SessionBook
  readonly waiters: Waiters
}

export const jobTopic = (jobId: string): string => `job:${jobId}`
export const workTopic = (operation: string): string => `work:${operation}`
export const sessionTopic = (sessionId: string): string => `session:${sessionId}`
export const capabilitiesTopic = 'capabilities'
