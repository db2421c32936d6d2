import type { Limits } from '../../../config/limits.ts'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import type { Database } from '../../../platform/database.ts'
import type { Tickets } from '../../../platform/tickets.ts'
import type { Access } from '../../access/index.ts'
import type { Collaboration } from '../../collaboration/index.ts'

/** What Workspace is given by the composition root. */
export interface WorkspaceParts {
  readonly database: Database
  readonly access: Access
  readonly collaboration: Collaboration
  readonly blobs: BlobStore
  readonly limits: Limits
  readonly uploadTickets: Tickets<{ readonly upload: string }>
}
