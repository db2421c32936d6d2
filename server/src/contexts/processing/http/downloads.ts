import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { BlobStore } from '../../../platform/blobs/blob-store.ts'
import type { Artifact, Processing } from '../index.ts'
import { parseByteRange } from './byte-range.ts'

/** Serves artifacts to whoever holds a ticket and may still have them. */
export function mountDownloads(server: FastifyInstance, processing: Processing, blobs: BlobStore): void {
  server.route<{ Params: { ticket: string } }>({
    method: ['GET', 'HEAD'],
    url: '/downloads/:ticket',
    handler: async (request, reply) => {
      const artifact = await processing.download(request.params.ticket)
      if (!artifact) {
        return reply.status(404).headers({ 'cache-control': 'no-store' }).send({
          code: 'NOT_FOUND',
          message: 'This link is over, or you may not have the file any more. Read the job again for a new one.',
        })
      }
      return send(artifact, blobs, request, reply)
    },
  })
}

function send(artifact: Artifact, blobs: BlobStore, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const etag = `"${artifact.sha256}"`
  reply.headers({
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-cache',
    'content-disposition': contentDisposition(artifact.fileName),
    'content-security-policy': "default-src 'none'; sandbox",
    'content-type': artifact.mediaType === 'text/plain' ? 'text/plain; charset=utf-8' : artifact.mediaType,
    'cross-origin-resource-policy': 'same-origin',
    etag,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  })
  if (matches(request.headers['if-none-match'], etag)) return reply.status(304).send()
  const ifRange = request.headers['if-range']
  const wanted = ifRange === undefined || ifRange === etag ? request.headers.range : undefined
  const range = parseByteRange(wanted, artifact.byteLength)
  if (range === 'unsatisfiable') {
    return reply.status(416).removeHeader('etag').header('content-range', `bytes */${artifact.byteLength}`).send()
  }
  const { start, end } = range === 'whole' ? { start: 0, end: artifact.byteLength } : range
  if (range !== 'whole') reply.status(206).header('content-range', `bytes ${start}-${end - 1}/${artifact.byteLength}`)
  reply.header('content-length', end - start)
  if (request.method === 'HEAD') return reply.send()
  return reply.send(Readable.from(blobs.read(artifact.sha256, { start, end })))
}

/** RFC 6266 with an ASCII name for old clients and the real one as RFC 8187 has it. */
function contentDisposition(fileName: string): string {
  const ascii = fileName.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(fileName.toWellFormed()).replaceAll(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

const matches = (header: string | undefined, etag: string): boolean =>
  (header ?? '').split(',').some((part) => part.trim().replace(/^W\//, '') === etag || part.trim() === '*')
