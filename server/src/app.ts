import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyBaseLogger, type FastifyError, LogController } from 'fastify'
import type { Logger } from 'pino'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { z } from 'zod'
import { Access } from './contexts/access/index.ts'
import { Collaboration } from './contexts/collaboration/index.ts'
import type { Deployment } from './contexts/distribution/index.ts'
import { mountDownloads } from './contexts/processing/http/downloads.ts'
import { mountWorkerProtocol } from './contexts/processing/http/worker-protocol.ts'
import {
  createProcessing,
  type DownloadRight,
  type Processing,
  ProcessingMetrics,
  ThreadValidator,
  type Transfer,
} from './contexts/processing/index.ts'
import { mountUploads } from './contexts/workspace/http/uploads.ts'
import { createWorkspace, type Workspace } from './contexts/workspace/index.ts'
import { mountGraphql } from './http/graphql.ts'
import { mountHealth } from './http/health.ts'
import { mountPages } from './http/pages.ts'
import { PostgresBlobStore } from './platform/blobs/postgres-blob-store.ts'
import { type DatabaseOptions, openDatabase } from './platform/database.ts'
import type { Failpoints } from './platform/failpoints.ts'
import { migrate } from './platform/migrate.ts'
import { PostgresSignals } from './platform/signals.ts'
import { deriveKey, Tickets } from './platform/tickets.ts'

export interface AppOptions {
  readonly databaseUrl: string
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly secret: string
  readonly deployment: Deployment
  readonly developmentToken: string | null
  readonly log: Logger
  /** Uniform in [0, 1). @default Math.random */
  readonly random?: () => number
  /** @default none */
  readonly failpoints?: Failpoints
  /** See every statement; for tests that decide in which order two transactions take their steps. */
  readonly interceptors?: DatabaseOptions['interceptors']
}

export interface App {
  readonly port: number
  readonly access: Access
  readonly workspace: Workspace
  readonly processing: Processing
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const anyId = z.uuid()
const transfer: z.ZodType<Transfer> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('input'), claim: anyId }),
  z.strictObject({
    kind: z.literal('output'),
    claim: anyId,
    role: z.enum(['pdf', 'log', 'synctex', 'pptx', 'report', 'bundle']),
    sha256: z.string(),
  }),
])
const download: z.ZodType<DownloadRight> = z.strictObject({ artifact: anyId, viewer: anyId })

/** Wires everything and listens. */
export async function startApp(options: AppOptions): Promise<App> {
  const { databaseUrl, deployment, log, secret } = options
  const { limits } = deployment
  await migrate(databaseUrl)
  await using cleanup = new AsyncDisposableStack()
  const database = await openDatabase({
    url: databaseUrl,
    poolSize: limits.databasePoolSize,
    statementTimeoutMs: limits.statementSeconds * 1000,
    logger: log,
    ...(options.failpoints ? { failpoints: options.failpoints } : {}),
    ...(options.interceptors ? { interceptors: options.interceptors } : {}),
  })
  cleanup.defer(() => database.close())
  const signals = new PostgresSignals(databaseUrl, log)
  await signals.open()
  cleanup.defer(() => signals.close())
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })

  const blobs = new PostgresBlobStore(database, limits)
  const access = new Access(database)
  const collaboration = new Collaboration(database)
  const uploadTickets = new Tickets(secret, 'upload', z.strictObject({ upload: anyId }))
  const workspace = createWorkspace({ database, access, collaboration, blobs, limits, uploadTickets })
  const validator = new ThreadValidator()
  cleanup.defer(() => validator.close())
  const processing = createProcessing({
    database,
    access,
    workspace,
    blobs,
    deployment,
    signals,
    validator,
    log,
    transferTickets: new Tickets(secret, 'transfer', transfer),
    downloadTickets: new Tickets(secret, 'download', download),
    sessionKey: deriveKey(secret, 'worker session'),
    metrics: new ProcessingMetrics(registry, database.pool),
    random: options.random ?? Math.random,
  })
  cleanup.defer(() => processing.close())
  if (options.developmentToken !== null) await access.ensureDevelopmentToken(options.developmentToken)

  const shutdown = new AbortController()
  const server = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 2_000 },
  })
  // JSON is the only body that is parsed anywhere: a page of another origin cannot send it without asking.
  server.removeContentTypeParser('text/plain')
  server.setErrorHandler<FastifyError>((error, request, reply) => {
    const status = error.statusCode ?? 500
    if (status >= 500) request.log.error({ err: error }, 'a request failed')
    const message = status < 500 ? error.message : 'Something went wrong.'
    return reply.status(status).send({ code: error.code ?? 'INTERNAL', message })
  })
  const sockets = mountGraphql(server, { access, workspace, processing }, { bodyBytes: limits.graphqlBodyBytes, log })
  mountWorkerProtocol(server, processing, shutdown.signal)
  mountUploads(server, workspace)
  mountDownloads(server, processing, blobs)
  mountHealth(server, database, registry)
  mountPages(server)
  await server.listen({ host: options.host, port: options.port })
  cleanup.defer(async () => {
    shutdown.abort()
    await sockets.close()
    await server.close()
  })

  const owned = cleanup.move()
  const close = () => owned.disposeAsync()
  return {
    port: (server.server.address() as AddressInfo).port,
    access,
    workspace,
    processing,
    close,
    [Symbol.asyncDispose]: close,
  }
}
