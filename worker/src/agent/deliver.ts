import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type ArtifactRole, type Claim, routes } from '../protocol/index.ts'
import type { ResultFile } from '../sdk/processor.ts'
import type { CoreClient } from './core-client.ts'

const uploadTries = 5

/** A result is larger than the operation's limit. */
export class OversizedResult extends Error {
  override name = 'OversizedResult' as const
  readonly limit: number

  constructor(role: ArtifactRole, limit: number) {
    super(`The result "${role}" is larger than the ${limit} bytes allowed.`)
    this.limit = limit
  }
}

/** Declares and uploads each file. @returns their roles @throws {OversizedResult} before anything is sent */
export async function deliver(
  client: CoreClient,
  claim: Claim,
  results: readonly ResultFile[],
  signal: AbortSignal,
): Promise<ArtifactRole[]> {
  const files = await Promise.all(results.map((result) => describe(result, claim)))
  if (files.length === 0) return []
  const parameters = { claim_id: claim.claim_id }
  const phase = client.persist(routes.reportPhase, parameters, { phase: 'uploading_result' }, { signal })
  await Promise.all([phase, ...files.map((file) => upload(client, claim, file, signal))])
  return files.map((file) => file.role)
}

interface DescribedFile extends ResultFile {
  readonly byteLength: number
  readonly sha256: string
}

async function describe(result: ResultFile, claim: Claim): Promise<DescribedFile> {
  const { size } = await stat(result.path)
  if (size > claim.limits.output_bytes) throw new OversizedResult(result.role, claim.limits.output_bytes)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(result.path)) hash.update(chunk)
  return { ...result, byteLength: size, sha256: hash.digest('hex') }
}

async function upload(client: CoreClient, claim: Claim, file: DescribedFile, signal: AbortSignal): Promise<void> {
  const { role, mediaType, byteLength, sha256 } = file
  const declaration = { role, media_type: mediaType, byte_length: byteLength, sha256 }
  const { ticket } = await client.persist(routes.stageResult, { claim_id: claim.claim_id }, declaration, { signal })
  const send = () => client.upload(routes.upload, ticket, createReadStream(file.path), byteLength, signal)
  await client.retrying(send, signal, { what: 'upload', tries: uploadTries })
}
