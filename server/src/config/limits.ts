/**
 * Every number of the deployment, in one place: unit in the name, default, why. `[limits]` in the deployment TOML
 * overrides them one by one under their snake_case names; processors' bounds are under each operation.
 */
export const defaultLimits = {
  /** GraphQL request body. Documents are written through it, so it bounds a document, JSON-escaped. */
  graphqlBodyBytes: 8 * 1024 * 1024,
  /** One text document. */
  documentBytes: 2 * 1024 * 1024,
  /** One asset or uploaded file. */
  uploadBytes: 256 * 1024 * 1024,
  /** All files of a project together. */
  projectBytes: 512 * 1024 * 1024,
  projectFiles: 5_000,
  /** Jobs waiting in the whole deployment; more are refused with a retry-after. */
  queuedJobs: 1_000,
  /** Jobs one requester may have running at once. */
  activePerRequester: 4,
  /** Jobs one project may have running at once. */
  activePerProject: 2,
  /** An upload ticket's life. */
  uploadTicketSeconds: 15 * 60,
  /** A download link's life. */
  downloadTicketSeconds: 5 * 60,
  /** A claim that is not renewed for this long is lost. */
  leaseSeconds: 20,
  /** How often a session reports that it lives; it counts as gone after three missed reports. */
  sessionHeartbeatSeconds: 5,
  /** Longest wait of one `acquire` call. */
  acquireWaitSeconds: 25,
  /** Transfer tickets outlive the longest lease renewal gap, not more: the claim is checked at use anyway. */
  transferTicketSeconds: 15 * 60,
  /** A finalizer that is silent for this long is taken over. */
  finalizationSeconds: 30,
  /** Capture and bundling; past it the preparation counts as abandoned. */
  prepareSeconds: 600,
  /** A replica that builds an input and is silent for this long is taken over. */
  preparerSeconds: 120,
  /** Longest stay in the queue. */
  queueWaitSeconds: 24 * 3600,
  /** Attempts of one job, first included. */
  attempts: 3,
  /** Back-off before attempt 2; doubles for each one after, with jitter. */
  retryBackoffSeconds: 2,
  /** Ended jobs, with their artifacts, are forgotten after this long. */
  jobRetentionSeconds: 90 * 24 * 3600,
  /** Idempotency keys of the API. */
  commandKeySeconds: 24 * 3600,
  /** Stored answers of worker calls: a claim's longest life and an hour. */
  workerRequestSeconds: 2 * 3600,
  /** Unreferenced blobs stay this long, so that a writer can take its reference. */
  blobGraceSeconds: 3600,
  /** A blob write older than this has no writer any more. */
  blobWriteSeconds: 2 * 3600,
  /** How often a replica looks what is due; half as often while nothing is under way. */
  reaperSeconds: 1,
  /** How often what is only untidy is swept: keys, blobs, uploads. */
  sweepSeconds: 60,
  /** Connections of one Core replica for statements; half as many again move bytes. */
  databasePoolSize: 16,
  /** No statement of Core takes longer unless something is wrong. */
  statementSeconds: 30,
  /** Subscriptions on one WebSocket. */
  subscriptionsPerSocket: 200,
} as const satisfies Record<string, number>

export type Limits = { readonly [name in keyof typeof defaultLimits]: number }
