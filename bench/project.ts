import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { GraphQLConnection } from './graphql.ts'

interface Result {
  readonly __typename: string
  readonly message?: string
}

function expectPayload<Payload>(result: Result, typename: string): Payload {
  if (result.__typename !== typename)
    throw new Error(`expected ${typename}, got ${result.__typename}: ${result.message}`)
  return result as unknown as Payload
}

/** Creates a LaTeX project from the text files of a folder. */
export async function createProject(api: GraphQLConnection, directory: string, entryPath: string): Promise<string> {
  const { createProject: created } = await api.execute<{ createProject: Result }>(
    `mutation ($input: CreateProjectInput!) {
      createProject(input: $input) { __typename ... on CreateProjectPayload { project { id } } ... on Error { message } }
    }`,
    {
      input: {
        name: directory.split('/').at(-1),
        type: 'LATEX',
        settings: { entryPath },
        idempotencyKey: randomUUID(),
      },
    },
  )
  const { project } = expectPayload<{ project: { id: string } }>(created, 'CreateProjectPayload')
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  for (const entry of entries.filter((each) => each.isFile())) {
    const file = join(entry.parentPath, entry.name)
    const { writeDocument } = await api.execute<{ writeDocument: Result }>(
      `mutation ($input: WriteDocumentInput!) { writeDocument(input: $input) { __typename ... on Error { message } } }`,
      { input: { projectId: project.id, path: relative(directory, file), text: await readFile(file, 'utf8') } },
    )
    expectPayload(writeDocument, 'WriteDocumentPayload')
  }
  return project.id
}

interface Job {
  readonly id: string
  readonly state: string
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly failure: { readonly message: string } | null
  readonly artifacts: readonly { readonly role: string; readonly downloadUrl: string }[]
}

export interface BuildTimes {
  /** From the call of `buildProject` to the last byte of the PDF. */
  readonly totalMs: number
  /** Until an attempt had been claimed, by the database's clock. */
  readonly beforeStartMs: number
  /** From the claim to the publication, by the database's clock. */
  readonly runMs: number
}

const milliseconds = (from: string, to: string | null) => (to === null ? Number.NaN : Date.parse(to) - Date.parse(from))

/** Builds the project once, as a new job, and downloads its PDF. */
export async function timeBuild(api: GraphQLConnection, projectId: string): Promise<BuildTimes> {
  const began = performance.now()
  const { buildProject } = await api.execute<{ buildProject: Result }>(
    `mutation ($input: BuildProjectInput!) {
      buildProject(input: $input) { __typename ... on BuildProjectPayload { job { id } } ... on Error { message } }
    }`,
    { input: { projectId, idempotencyKey: randomUUID() } },
  )
  const { job: submitted } = expectPayload<{ job: { id: string } }>(buildProject, 'BuildProjectPayload')
  let job: Job | undefined
  const updates = api.subscribe<{ job: Job }>(
    `subscription ($id: ID!) {
      job(id: $id) { id state createdAt startedAt finishedAt failure { message } artifacts { role downloadUrl } }
    }`,
    { id: submitted.id },
  )
  for await (const update of updates) {
    job = update.job
    if (job.finishedAt !== null) break
  }
  const pdf = job?.artifacts.find((artifact) => artifact.role === 'PDF')
  if (job?.state !== 'SUCCEEDED' || pdf === undefined) {
    throw new Error(`the job ended as ${job?.state}: ${job?.failure?.message ?? 'without a PDF'}`)
  }
  const bytes = await api.download(pdf.downloadUrl)
  const totalMs = performance.now() - began
  if (new TextDecoder('latin1').decode(bytes.subarray(0, 5)) !== '%PDF-')
    throw new Error('what was downloaded is no PDF')
  return {
    totalMs,
    beforeStartMs: milliseconds(job.createdAt, job.startedAt),
    runMs: milliseconds(job.startedAt ?? job.createdAt, job.finishedAt),
  }
}
