import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { type Database, sql } from '../platform/database.ts'

/** `/healthz`: the process answers. `/readyz`: it can do its work. `/metrics`: Prometheus. */
export function mountHealth(server: FastifyInstance, database: Database, registry: Registry): void {
  server.get('/healthz', async () => ({ status: 'ok' }))
  server.get('/readyz', async (request, reply) => {
    try {
      await database.pool.query(sql.unsafe`SELECT 1`)
      return { status: 'ready' }
    } catch (error) {
      request.log.warn({ err: error }, 'not ready')
      return reply.status(503).send({ status: 'database unreachable' })
    }
  })
  server.get('/metrics', async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()))
}
