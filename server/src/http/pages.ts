import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance } from 'fastify'

const host = (name: string): string => fileURLToPath(new URL(`../../../web-widget/host/${name}`, import.meta.url))

const files = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/host/host.js', 'host.js', 'text/javascript; charset=utf-8'],
  ['/host/host.css', 'host.css', 'text/css; charset=utf-8'],
] as const

const headers = {
  'cache-control': 'no-cache',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; frame-src blob:; object-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
}

/** The small host page, which uses the product as any host would, and the widget's script. */
export function mountPages(server: FastifyInstance): void {
  for (const [path, name, type] of files) {
    server.get(path, async (_request, reply) =>
      reply
        .headers(headers)
        .type(type)
        .send(await readFile(host(name))),
    )
  }
  let widget: Promise<string> | null = null
  server.get('/widget/task-center.js', async (_request, reply) => {
    widget ??= build()
    widget.catch(() => {
      widget = null
    })
    return reply
      .headers(headers)
      .type('text/javascript; charset=utf-8')
      .send(await widget)
  })
}

async function build(): Promise<string> {
  const builder: { buildWidget(): Promise<{ code: string }> } = await import(
    new URL('../../../web-widget/build.ts', import.meta.url).href
  )
  return (await builder.buildWidget()).code
}
