import type { FastifyError, FastifyInstance } from 'fastify'
import type { Workspace } from '../index.ts'

/** Takes the bytes of an upload, as they come, from whoever holds its ticket. */
export function mountUploads(server: FastifyInstance, workspace: Workspace): void {
  server.register(async (uploads) => {
    uploads.removeAllContentTypeParsers()
    uploads.addContentTypeParser('*', (_request, _payload, done) => done(null))
    uploads.setErrorHandler<FastifyError>((error, request, reply) => {
      request.log.warn({ err: error }, 'an upload failed')
      return reply
        .status(500)
        .header('connection', 'close')
        .send({ code: 'INTERNAL', message: 'The upload failed. Send the bytes again.' })
    })
    uploads.put<{ Params: { ticket: string } }>('/uploads/:ticket', async (request, reply) => {
      const outcome = await workspace.uploads.store(request.params.ticket, request.raw)
      if (outcome.kind === 'stored') return reply.status(204).send()
      reply.header('connection', 'close')
      if (outcome.kind === 'unknown') {
        return reply
          .status(404)
          .send({ code: 'NOT_FOUND', message: 'This upload is over or was never there. Create another.' })
      }
      return reply.status(outcome.status).send({ code: 'UPLOAD_REFUSED', message: outcome.message })
    })
  })
}
