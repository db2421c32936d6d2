import { Client, fetchExchange, gql, type OperationResult, subscriptionExchange } from '@urql/core'
import { createClient as createSocket } from 'graphql-ws'
import type { Task } from './types.ts'

const fields = gql`
  fragment TaskFields on Job {
    id operation state phase version attempt createdAt finishedAt waitingReason cancelRequested
    project { id name }
    failure { class message }
    diagnostics { severity file line message hint }
    artifacts { id role fileName byteLength downloadUrl }
  }
`
const listQuery = gql`
  query TaskCenter($first: Int!) { jobs(first: $first) { edges { node { ...TaskFields } } } }
  ${fields}
`
const taskSubscription = gql`
  subscription TaskChanges($id: ID!) { job(id: $id) { ...TaskFields } }
  ${fields}
`
const cancelMutation = gql`
  mutation CancelTask($input: CancelJobInput!) {
    cancelJob(input: $input) { __typename ... on CancelJobPayload { job { ...TaskFields } } ... on Error { message } }
  }
  ${fields}
`
const artifactQuery = gql`
  query TaskArtifact($id: ID!) { node(id: $id) { ... on Artifact { downloadUrl } } }
`

/** Why the server did not do what it was asked. */
export class RequestError extends Error {
  override name = 'RequestError' as const
  readonly unauthorized: boolean

  constructor(message: string, unauthorized: boolean) {
    super(message)
    this.unauthorized = unauthorized
  }
}

/** What the center asks of the server, as one account. */
export interface TaskClient {
  list(first: number): Promise<readonly Task[]>
  /** Calls `onTask` with each newer state until the task ends. @returns what ends it */
  watch(id: string, onTask: (task: Task) => void): () => void
  cancel(id: string): Promise<Task>
  /** A fresh link: those in a list are good for a few minutes only. */
  downloadUrl(artifactId: string): Promise<string>
  close(): void
}

/** @param getToken called for each request and each connection, so that short-lived tokens stay fresh */
export function createTaskClient(endpoint: string, getToken: () => Promise<string>): TaskClient {
  const url = new URL(endpoint, location.href)
  const socketUrl = new URL(url)
  socketUrl.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  const socket = createSocket({
    url: socketUrl.href,
    lazy: true,
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
    connectionParams: async () => ({ token: await getToken() }),
  })
  const client = new Client({
    url: url.href,
    preferGetMethod: false,
    fetch: async (input, init) => {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${await getToken()}`)
      return fetch(input, { ...init, headers })
    },
    exchanges: [
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: (request) => ({
          subscribe: (sink) => ({
            unsubscribe: socket.subscribe(
              { ...request, query: request.query ?? '' },
              {
                ...sink,
                next: (value) => sink.next({ ...value, data: value.data ?? null } as Parameters<typeof sink.next>[0]),
              },
            ),
          }),
        }),
      }),
    ],
  })
  return {
    list: async (first) => {
      const data = dataOf(await client.query(listQuery, { first }, { requestPolicy: 'network-only' }).toPromise())
      return data.jobs.edges.map((edge: { node: Task }) => edge.node)
    },
    watch: (id, onTask) => {
      const { unsubscribe } = client.subscription(taskSubscription, { id }).subscribe(({ data }) => {
        if (data?.job) onTask(data.job)
      })
      return unsubscribe
    },
    cancel: async (jobId) => {
      const { cancelJob } = dataOf(await client.mutation(cancelMutation, { input: { jobId } }).toPromise())
      if (!cancelJob.job) throw new RequestError(cancelJob.message, false)
      return cancelJob.job
    },
    downloadUrl: async (id) => {
      const { node } = dataOf(await client.query(artifactQuery, { id }, { requestPolicy: 'network-only' }).toPromise())
      return new URL(node.downloadUrl, url).href
    },
    close: () => void socket.dispose(),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the shape is that of the document
function dataOf({ data, error }: OperationResult): any {
  if (error) {
    const unauthorized =
      (error.response as Response | undefined)?.status === 401 ||
      error.graphQLErrors.some((each) => each.extensions.code === 'UNAUTHENTICATED')
    throw new RequestError(error.message, unauthorized)
  }
  return data
}
