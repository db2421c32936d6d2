import type { FastifyInstance, FastifyReply } from 'fastify'
import type { GraphQLError } from 'graphql'
import { useServer } from 'graphql-ws/use/ws'
import { createYoga, type YogaServerInstance } from 'graphql-yoga'
import type { Logger } from 'pino'
import { WebSocketServer } from 'ws'
import type { Viewer } from '../contexts/access/index.ts'
import { type Context, createContext, type Services } from '../graphql/context.ts'
import { maskError } from '../graphql/errors.ts'
import { schema } from '../graphql/schema.ts'
import { UnauthenticatedError } from '../platform/errors.ts'

const socketMessageBytes = 8 * 1024 * 1024

interface HttpContext {
  readonly authorization: string | null
}
type Yoga = YogaServerInstance<HttpContext, Context>

/** GraphQL over HTTP and server-sent events (POST of JSON only) and over WebSocket, one endpoint. */
export function mountGraphql(
  server: FastifyInstance,
  services: Services,
  { bodyBytes, log }: { bodyBytes: number; log: Logger },
): { close(): Promise<void> } {
  const mask = maskError(log)
  const yoga: Yoga = createYoga<HttpContext, Context>({
    schema,
    graphqlEndpoint: '/graphql',
    context: async ({ authorization }) => createContext(services, await viewerOf(services, bearer(authorization))),
    maskedErrors: { maskError: mask },
    multipart: false,
    cors: false,
    graphiql: false,
    landingPage: false,
    batching: false,
    logging: false,
  })
  server.post('/graphql', { bodyLimit: bodyBytes }, async (request, reply) => {
    const authorization = request.headers.authorization ?? null
    return forward(await yoga.handleNodeRequestAndResponse(request, reply, { authorization }), reply)
  })
  return mountSocket(server, yoga, services, mask)
}

function forward(answer: Response, reply: FastifyReply): FastifyReply {
  for (const [name, value] of answer.headers) reply.header(name, value)
  // Proxies that buffer would hold an event stream back.
  if (answer.headers.get('content-type')?.startsWith('text/event-stream')) reply.header('x-accel-buffering', 'no')
  return reply.status(answer.status).send(answer.body ?? '')
}

function mountSocket(server: FastifyInstance, yoga: Yoga, services: Services, mask: (error: unknown) => GraphQLError) {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: socketMessageBytes })
  server.server.on('upgrade', (request, socket, head) => {
    if (new URL(request.url ?? '/', 'http://core').pathname !== '/graphql') return socket.destroy()
    sockets.handleUpgrade(request, socket, head, (webSocket) => sockets.emit('connection', webSocket, request))
  })
  const tokens = new WeakMap<object, string>()
  const disposable = useServer(
    {
      // A socket without a sound token is closed with 4403 before it can ask anything.
      onConnect: async (connection) => {
        const token = connection.connectionParams?.token
        if (typeof token !== 'string' || !(await services.access.authenticate(token))) return false
        tokens.set(connection.extra, token)
        return true
      },
      onSubscribe: async (connection, _id, payload) => {
        try {
          const { execute, subscribe, parse, validate } = yoga.getEnveloped({ authorization: null })
          const contextValue = createContext(services, await viewerOf(services, tokens.get(connection.extra) ?? ''))
          const document = parse(payload.query)
          const errors = validate(schema, document)
          if (errors.length > 0) return errors
          return {
            schema,
            document,
            operationName: payload.operationName,
            variableValues: payload.variables,
            contextValue,
            rootValue: { execute, subscribe },
          }
        } catch (error) {
          // Thrown, it would close the socket for good; returned, it ends this operation only.
          return [mask(error)]
        }
      },
      execute: (args) => (args.rootValue as Executors).execute(args),
      subscribe: (args) => (args.rootValue as Executors).subscribe(args),
    },
    sockets,
  )
  return { close: async () => void (await disposable.dispose()) }
}

interface Executors {
  readonly execute: (args: unknown) => never
  readonly subscribe: (args: unknown) => never
}

async function viewerOf({ access }: Services, token: string): Promise<Viewer> {
  const viewer = await access.authenticate(token)
  if (!viewer)
    throw new UnauthenticatedError('Send the header "Authorization: Bearer" with an API token that is valid.')
  return viewer
}

const bearer = (authorization: string | null): string => /^Bearer (\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
