import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Platen } from '../client.ts'
import { NotFoundError } from '../errors.ts'
import type { JobHandle } from '../job-handle.ts'
import { applySync, planSync } from '../node/sync-folder.ts'
import { type Walk, walkProject } from '../node/walk.ts'
import type { Job, LatexEngine, Project } from '../types.ts'
import type { Connection } from './connection.ts'
import { exitCodeOf, exitCodes, UsageError } from './outcome.ts'
import { ProjectMap } from './project-map.ts'
import { diagnosticLine, Progress, printable, progressWords } from './terminal.ts'

export interface BuildFlags {
  readonly engine?: string
  readonly entry?: string
  readonly keepGoing?: boolean
  readonly output?: string
  readonly json?: boolean
}

const engines = ['pdflatex', 'xelatex', 'lualatex']

/** From a folder to a PDF. @returns the exit code */
export async function build({ platen, url }: Connection, directory: string, flags: BuildFlags): Promise<number> {
  if (flags.engine !== undefined && !engines.includes(flags.engine)) {
    throw new UsageError(`--engine is "${flags.engine}"; expected one of ${engines.join(', ')}.`)
  }
  const root = await projectRoot(directory)
  const output = await outputPath(flags.output ?? `${nameOf(root, flags.entry)}.pdf`)
  const walk = await walkProject(root, [output, logPath(output)])
  if (walk.files.length === 0) throw new UsageError(`${directory} has no files to build.`)
  const progress = new Progress(process.stderr, { quiet: flags.json === true })
  try {
    const projectId = await upload(platen, url, root, walk, progress)
    const job = await platen.build(projectId, {
      onError: flags.keepGoing ? 'PUBLISH' : 'FAIL',
      ...(flags.engine && { engine: flags.engine.toUpperCase() as LatexEngine }),
      ...(flags.entry && { entryPath: flags.entry.replaceAll('\\', '/').replace(/^\.\//, '') }),
    })
    const ended = await follow(job, progress)
    progress.clear()
    return await finish(job, ended, { output, json: flags.json === true, remarks: walk.remarks })
  } finally {
    progress.clear()
  }
}

async function projectRoot(directory: string): Promise<string> {
  const facts = await stat(directory).catch(() => null)
  if (!facts) throw new UsageError(`${directory} does not exist.`)
  if (!facts.isDirectory()) throw new UsageError(`${directory} is a file. Give its folder, and the file with --entry.`)
  return realpath(directory)
}

/** Without links, so that a result inside the folder is known for what it is at the next build. */
async function outputPath(given: string): Promise<string> {
  const output = resolve(given)
  const directory = dirname(output)
  const facts = await stat(directory).catch(() => null)
  if (!facts?.isDirectory()) throw new UsageError(`The folder ${directory}, where the PDF would go, does not exist.`)
  return join(await realpath(directory), basename(output))
}

const nameOf = (root: string, entry: string | undefined): string =>
  entry === undefined ? basename(root) : basename(entry, extname(entry))
const logPath = (output: string): string => `${output.replace(/\.pdf$/i, '')}.log`

async function upload(platen: Platen, url: string, root: string, { files }: Walk, progress: Progress): Promise<string> {
  progress.show('comparing files')
  const project = await findProject(platen, url, root)
  const plan = await planSync(project, files)
  let sent = 0
  const say = () => progress.show(`uploading ${sent} of ${plan.upload.length} files`)
  if (plan.upload.length > 0 && process.stderr.isTTY) say()
  await applySync(platen, project.id, plan, {
    onFile: () => {
      sent += 1
      if (process.stderr.isTTY) say()
    },
  })
  return project.id
}

async function findProject(platen: Platen, url: string, directory: string): Promise<Project> {
  const map = new ProjectMap()
  const key = { url, viewerId: (await platen.viewer()).id, directory }
  const known = await map.find(key)
  if (known !== null) {
    try {
      return await platen.project(known)
    } catch (error) {
      // Deleted since, or of a server that began anew.
      if (!(error instanceof NotFoundError)) throw error
    }
  }
  const project = await platen.createProject(basename(directory).slice(0, 200) || 'project', 'LATEX')
  await map.remember(key, project.id)
  return project
}

/** The first Ctrl-C asks the job to stop and waits for what becomes of it; the second leaves. */
async function follow(job: JobHandle, progress: Progress): Promise<Job> {
  let asked = false
  const onInterrupt = () => {
    if (asked) process.exit(130)
    asked = true
    progress.show('stopping the job; Ctrl-C again to leave it')
    job.cancel().catch((error: Error) => progress.show(`the job could not be asked to stop: ${error.message}`))
  }
  process.on('SIGINT', onInterrupt)
  try {
    let newest = job.newest
    for await (newest of job.watch()) if (newest.phase !== null && !asked) progress.show(progressWords(newest))
    return newest
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}

interface Destination {
  readonly output: string
  readonly json: boolean
  readonly remarks: readonly string[]
}

async function finish(handle: JobHandle, job: Job, { output, json, remarks }: Destination): Promise<number> {
  const say = (line: string) => process.stderr.write(`${printable(line)}\n`)
  const code = exitCodeOf(job)
  for (const remark of remarks) say(remark)
  if (code === exitCodes.jobFailed)
    say(`${job.state.toLowerCase()}${job.failure ? `: ${job.failure.class.toLowerCase()}` : ''}`)
  if (job.failure?.class === 'RESOURCE_LIMIT' || job.diagnostics.length === 0) if (job.failure) say(job.failure.message)
  for (const diagnostic of job.diagnostics) {
    say(diagnosticLine(diagnostic))
    if (diagnostic.hint && diagnostic.severity === 'ERROR') say(`  ${diagnostic.hint}`)
  }
  const role = code === exitCodes.succeeded ? 'PDF' : 'LOG'
  if (job.artifacts.some((artifact) => artifact.role === role)) {
    const path = role === 'PDF' ? output : logPath(output)
    await save(handle, role, path)
    if (role === 'LOG') say(`The log is in ${path}`)
    else if (!json) process.stdout.write(`${path}\n`)
  }
  if (json) process.stdout.write(`${JSON.stringify(job, null, 2)}\n`)
  return code
}

/** Whoever reads the file meanwhile has the old one or the new one, never half of one. */
async function save(job: JobHandle, role: string, path: string): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}`)
  try {
    const response = await job.download(role)
    if (!response.body) throw new Error('the download has no body')
    await pipeline(
      Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]),
      createWriteStream(temporary),
    )
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
