import type { Job } from '../types.ts'
import type { Connection } from './connection.ts'
import { exitCodeOf, exitCodes } from './outcome.ts'
import { diagnosticLine, printable, progressWords } from './terminal.ts'

/** Lists jobs, newest first. */
export async function listJobs(
  { platen }: Connection,
  { json, limit }: { readonly json?: boolean; readonly limit: string },
): Promise<number> {
  const { jobs } = await platen.jobs({ first: Math.min(100, Math.max(1, Number(limit) || 20)) })
  if (json) process.stdout.write(`${JSON.stringify(jobs, null, 2)}\n`)
  else if (jobs.length === 0) process.stdout.write('No jobs yet. Start one with: platen build DIR\n')
  else for (const job of jobs) process.stdout.write(`${lineOf(job)}\n`)
  return exitCodes.succeeded
}

/** Shows one job. @returns 1 if it failed */
export async function showJob(
  { platen }: Connection,
  id: string,
  { json }: { readonly json?: boolean },
): Promise<number> {
  const { newest: job } = await platen.job(id)
  if (json) process.stdout.write(`${JSON.stringify(job, null, 2)}\n`)
  else print(job)
  return job.finishedAt === null ? exitCodes.succeeded : exitCodeOf(job)
}

/** Asks a job to stop and says what came of it. */
export async function cancelJob(
  { platen }: Connection,
  id: string,
  { json }: { readonly json?: boolean },
): Promise<number> {
  const handle = await platen.job(id)
  const job = await handle.cancel()
  if (json) process.stdout.write(`${JSON.stringify(job, null, 2)}\n`)
  else process.stdout.write(`${cancelWords(job)}\n`)
  return exitCodes.succeeded
}

function cancelWords(job: Job): string {
  if (job.state === 'CANCELLED') return 'cancelled'
  if (job.finishedAt !== null) return `too late: the job had ${job.state.toLowerCase()}`
  return job.cancelRequested ? 'stopping' : 'too late: its result was accepted and is being published'
}

const stateWords = (job: Job): string =>
  job.phase === null
    ? `${job.state.toLowerCase()}${job.failure ? `: ${job.failure.class.toLowerCase()}` : ''}`
    : progressWords(job)

const lineOf = (job: Job): string =>
  printable(
    [job.id, job.createdAt.replace(/\..*/, 'Z'), job.operation, job.project?.name ?? '-', stateWords(job)].join('  '),
  )

function print(job: Job): void {
  const write = (line: string) => process.stdout.write(`${printable(line)}\n`)
  write(`${job.operation} of ${job.project?.name ?? 'a project that is gone'}`)
  write(stateWords(job))
  if (job.failure) write(job.failure.message)
  write(`submitted ${job.createdAt}${job.finishedAt ? `, ended ${job.finishedAt}` : ''}, attempt ${job.attempt}`)
  for (const { role, fileName, byteLength } of job.artifacts)
    write(`${role.toLowerCase()}: ${fileName} (${byteLength} bytes)`)
  for (const diagnostic of job.diagnostics) write(diagnosticLine(diagnostic))
}
