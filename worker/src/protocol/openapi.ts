import { z } from 'zod'
import * as manifest from './manifest.ts'
import * as messages from './messages.ts'
import { type Body, problemStatuses, protocolBase, type Route, routes } from './routes.ts'

/** Prints the protocol as an OpenAPI 3.1 document. The same source always gives the same bytes. */
export function printOpenApi(): string {
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Platen worker protocol',
      version: '1.0.0',
      summary: 'Private protocol between Core and its workers.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: protocolBase }],
    paths: paths(),
    components: {
      securitySchemes: {
        worker: {
          type: 'http',
          scheme: 'bearer',
          description: 'Worker identity of the deployment: `plw_<name>.<secret>`. Opens sessions only.',
        },
        session: {
          type: 'http',
          scheme: 'bearer',
          description: 'The `session_token` that opening a session returned.',
        },
      },
      schemas: schemas(),
    },
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

const titles: readonly (readonly [name: string, schema: z.ZodType])[] = [
  ['Diagnostic', messages.diagnostic],
  ['Limits', messages.limits],
  ['LatexOptions', messages.latexOptions],
  ['ProcessorRegistration', messages.processorRegistration],
  ['ProcessorHealth', messages.processorHealth],
  ['Claim', messages.claim],
  ['Problem', messages.problem],
  ['ProjectManifest', manifest.projectManifest],
  ['ManifestFile', manifest.manifestFile],
]

function registry() {
  const named = z.registry<{ id: string }>()
  for (const [id, schema] of titles) named.add(schema, { id })
  for (const [name, { request, response }] of Object.entries(routes) as [string, Route][]) {
    const title = name.charAt(0).toUpperCase() + name.slice(1)
    if (request !== null && request !== 'bytes') named.add(request, { id: `${title}Request` })
    if (response !== null && response !== 'bytes') named.add(response, { id: `${title}Response` })
  }
  return named
}

const anyJson = 'JsonValue'

function schemas(): Record<string, unknown> {
  const printed = z.toJSONSchema(registry(), {
    target: 'draft-2020-12',
    uri: (id) => `#/components/schemas/${id}`,
    override: ({ jsonSchema }) => {
      // The format says it; zod's pattern beside it only repeats RFC 9562.
      if (jsonSchema.format === 'uuid') delete jsonSchema.pattern
    },
  })
  const { __shared, ...named } = printed.schemas
  assertOnlyJsonValues(__shared)
  const components = Object.entries(named).map(([id, schema]) => {
    const { $schema: _dialect, $id: _uri, ...rest } = schema as Record<string, unknown>
    return [id, rest] as const
  })
  components.push([anyJson, { description: 'Any JSON value.' }])
  const sorted = Object.fromEntries(components.sort(([a], [b]) => (a < b ? -1 : 1)))
  const text = JSON.stringify(sorted).replaceAll(/#\/components\/schemas\/__shared#\/\$defs\/\w+/g, () => {
    return `#/components/schemas/${anyJson}`
  })
  return JSON.parse(text)
}

/** zod moves recursive schemas to a place that OpenAPI cannot refer to. The only ones we have are its own `z.json()`. */
function assertOnlyJsonValues(shared: unknown): void {
  const definitions = (shared as { $defs?: Record<string, { anyOf?: unknown[] }> } | undefined)?.$defs ?? {}
  for (const [id, definition] of Object.entries(definitions)) {
    if (definition.anyOf?.length !== 6) {
      throw new Error(`the recursive schema ${id} needs a name in the OpenAPI registry; add it to \`titles\``)
    }
  }
}

function paths(): Record<string, Record<string, unknown>> {
  const result: Record<string, Record<string, unknown>> = {}
  for (const [name, route] of Object.entries(routes) as [string, Route][]) {
    result[route.path] = { ...result[route.path], [route.method.toLowerCase()]: operation(name, route) }
  }
  return result
}

function operation(name: string, route: Route) {
  const title = name.charAt(0).toUpperCase() + name.slice(1)
  const request = content(route.request, `${title}Request`)
  return {
    operationId: name,
    summary: route.summary,
    security: [{ [route.token]: [] }],
    parameters: parameters(route),
    ...(request === null ? {} : { requestBody: { required: true, content: request } }),
    responses: {
      [route.successStatus]: { description: 'Done.', content: content(route.response, `${title}Response`) },
      ...refusals(route),
    },
  }
}

function parameters(route: Route) {
  const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: name === 'ticket' ? { type: 'string' } : { type: 'string', format: 'uuid' },
  }))
  if (route.method !== 'POST') return inPath
  const key = {
    name: 'Idempotency-Key',
    in: 'header',
    required: true,
    description: 'One per logical call, kept across its retries. The stored answer is replayed to the same request.',
    schema: { type: 'string', format: 'uuid' },
  }
  return [...inPath, key]
}

function content(body: Body, name: string) {
  if (body === null) return null
  if (body === 'bytes') return { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }
  return { 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } }
}

function refusals(route: Route): Record<string, unknown> {
  const byStatus = Map.groupBy([...route.problems].sort(), (code) => problemStatuses[code])
  const problemBody = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [status, { description: codes.join(', '), content: problemBody }]),
  )
}
