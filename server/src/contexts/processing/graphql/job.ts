import type { ArtifactRole, Diagnostic, FailureClass, OnError, Phase, Severity } from '@platen/worker/protocol'
import { builder, closedEnum } from '../../../graphql/builder.ts'
import { keysetConnection } from '../../../graphql/connections.ts'
import { loadEach } from '../../../graphql/context.ts'
import { NotFoundError } from '../../../platform/errors.ts'
import { ProjectNode } from '../../workspace/graphql/project.ts'
import type { Artifact, JobState, VisibleJob, WaitingReason } from '../index.ts'

const JobStateEnum = closedEnum<JobState>('JobState', 'Where a job is in its life.', {
  preparing: 'Its input is being captured.',
  queued: 'It waits for a worker.',
  running: 'A worker is at it.',
  finalizing: 'Its result was accepted and is being validated and published; it cannot be cancelled any more.',
  succeeded: 'Its result is published. Final.',
  failed: 'It failed; see `failure`. Final.',
  cancelled: 'It was cancelled. Final.',
  expired: 'It waited longer than it may. Final.',
})

const JobPhaseEnum = closedEnum<Phase>('JobPhase', 'What an unfinished job is doing.', {
  capturing_input: 'Its input is being captured.',
  waiting_for_worker: 'It waits for a worker.',
  processing: 'The processor runs.',
  uploading_result: 'The worker sends the result.',
  validating_result: 'The result is being validated.',
  publishing_result: 'The result is being published.',
})

const FailureClassEnum = closedEnum<FailureClass>('FailureClass', 'Why a job failed.', {
  invalid_input: 'The input cannot be processed as it is.',
  processor_rejected: 'The processor refused the input; the diagnostics say why.',
  unsupported_dependency: 'The input needs something that the deployment does not have.',
  resource_limit: 'The job reached a bound; see `limit`.',
  transient_infrastructure: 'The infrastructure failed, again and again.',
  worker_interrupted: 'Workers were lost, again and again.',
  contract_violation: 'The processor broke its contract. Operators are told.',
})

const SeverityEnum = closedEnum<Severity>('Severity', 'How bad a finding is.', {
  error: 'Something is wrong.',
  warning: 'Something may be wrong.',
  info: 'Worth knowing.',
})

const WaitingReasonEnum = closedEnum<WaitingReason>('WaitingReason', 'Why a queued job is not running yet.', {
  no_worker: 'No worker serves the operation now.',
  retry_backoff: 'An attempt failed; the next one starts a little later.',
  requester_limit: 'You have as many jobs running as one may.',
  project_limit: 'The project has as many jobs running as one may.',
  capacity: 'All workers are busy; it is next in line, or others are before it.',
})

const ArtifactRoleEnum = closedEnum<ArtifactRole>('ArtifactRole', 'What a result file is.', {
  pdf: 'The document.',
  log: 'The log of the toolchain.',
  synctex: 'Positions that connect source and PDF.',
  pptx: 'The presentation.',
  report: 'What a conversion found.',
  bundle: 'A project.',
})

export const OnErrorEnum = closedEnum<OnError>(
  'OnError',
  'What becomes of a document that was finished by recovering from errors.',
  {
    fail: 'The job fails.',
    publish: 'The job succeeds, publishes the document and carries the errors as diagnostics.',
  },
)

interface Limit {
  readonly name: string
  readonly value: number
}
const FailureLimitType = builder.objectRef<Limit>('FailureLimit').implement({
  description: 'A bound that was reached.',
  fields: (t) => ({
    name: t.exposeString('name', { description: 'As in the deployment file, such as `wall_seconds`.' }),
    value: t.exposeFloat('value', { description: 'Its value, in the unit of its name.' }),
  }),
})

const FailureType = builder.objectRef<NonNullable<VisibleJob['failure']>>('Failure').implement({
  description: 'Why a job failed.',
  fields: (t) => ({
    class: t.field({ type: FailureClassEnum, description: 'For programs.', resolve: (failure) => failure.class }),
    message: t.exposeString('message', { description: 'A sentence for people.' }),
    limit: t.field({
      type: FailureLimitType,
      nullable: true,
      description: 'With RESOURCE_LIMIT: which bound.',
      resolve: (failure) => failure.limit,
    }),
  }),
})

const DiagnosticType = builder.objectRef<Diagnostic>('Diagnostic').implement({
  description: 'A finding about the document.',
  fields: (t) => ({
    severity: t.field({ type: SeverityEnum, description: 'How bad.', resolve: (diagnostic) => diagnostic.severity }),
    file: t.exposeString('file', { nullable: true, description: 'Path in the project, where one is known.' }),
    line: t.exposeInt('line', { nullable: true, description: '1-based, where one is known.' }),
    message: t.exposeString('message', { description: 'What was found.' }),
    context: t.exposeString('context', { nullable: true, description: 'Lines of the log around it.' }),
    hint: t.exposeString('hint', { nullable: true, description: 'What to do about it, where known.' }),
  }),
})

const ArtifactNode = builder.objectRef<Artifact>('Artifact')
builder.node(ArtifactNode, {
  description: 'A published result file.',
  id: { resolve: (artifact) => artifact.id, description: 'Global id.' },
  loadMany: (ids, { processing, viewer }) => Promise.all(ids.map((id) => processing.jobs.artifact(viewer.id, id))),
  fields: (t) => ({
    role: t.field({ type: ArtifactRoleEnum, description: 'What it is.', resolve: (artifact) => artifact.role }),
    mediaType: t.exposeString('mediaType', { description: 'Its media type.' }),
    fileName: t.exposeString('fileName', { description: 'A name to save it under.' }),
    byteLength: t.field({ type: 'BigInt', description: 'Bytes.', resolve: (artifact) => artifact.byteLength }),
    sha256: t.field({ type: 'Sha256', description: 'Of its bytes.', resolve: (artifact) => artifact.sha256 }),
    downloadUrl: t.string({
      description:
        'A path of this server that serves it to whoever has it, for a few minutes and while you may see it.',
      resolve: (artifact, _args, { processing, viewer }) => processing.downloadUrl(artifact.id, viewer.id),
    }),
  }),
})

export const JobNode = builder.objectRef<VisibleJob>('Job')
builder.node(JobNode, {
  description: 'One run of an operation on one immutable input.',
  id: { resolve: (job) => job.id, description: 'Global id.' },
  loadMany: (ids, { loaders }) => loadEach(loaders.job, ids),
  fields: (t) => ({
    operation: t.exposeString('operation', { description: 'What it does, such as `latex.compile.pdf/v1`.' }),
    state: t.field({ type: JobStateEnum, description: 'Where it is in its life.', resolve: (job) => job.state }),
    phase: t.field({
      type: JobPhaseEnum,
      nullable: true,
      description: 'What it is doing; null when it ended.',
      resolve: (job) => job.phase,
    }),
    version: t.field({
      type: 'BigInt',
      description: 'Grows with each change: of two states the one with the higher version is newer.',
      resolve: (job) => job.version,
    }),
    project: t.field({
      type: ProjectNode,
      nullable: true,
      description: 'The project it was built from; null if it is gone or not yours to see any more.',
      resolve: (job, _args, { loaders }) => (job.projectId === null ? null : loaders.project.load(job.projectId)),
    }),
    attempt: t.exposeInt('attemptCount', {
      description: 'The number of the present or last attempt; 0 before the first.',
    }),
    createdAt: t.field({ type: 'DateTime', description: 'When it was submitted.', resolve: (job) => job.createdAt }),
    queuedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When it was last put in line.',
      resolve: (job) => job.queuedAt,
    }),
    startedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When its first attempt began.',
      resolve: (job) => job.startedAt,
    }),
    finishedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When it ended.',
      resolve: (job) => job.finishedAt,
    }),
    waitingReason: t.field({
      type: WaitingReasonEnum,
      nullable: true,
      description: 'Why it is not running yet, while it is queued; null also when a worker is about to take it.',
      resolve: (job, _args, { loaders }) => (job.state === 'queued' ? loaders.waitingReason.load(job) : null),
    }),
    cancelRequested: t.exposeBoolean('cancelRequested', { description: 'Whether it was asked to stop.' }),
    failure: t.field({
      type: FailureType,
      nullable: true,
      description: 'Why it failed.',
      resolve: (job) => job.failure,
    }),
    diagnostics: t.field({
      type: [DiagnosticType],
      description: 'What was found about the document.',
      resolve: (job) => [...job.diagnostics],
    }),
    artifacts: t.field({
      type: [ArtifactNode],
      description: 'Its published files; after a failure those that explain it.',
      resolve: async (job, _args, { loaders }) => (job.restricted ? [] : [...(await loaders.artifacts.load(job.id))]),
    }),
    inputDigest: t.field({
      type: 'Sha256',
      nullable: true,
      description: 'Digest of its input, once captured.',
      resolve: (job) => job.inputDigest,
    }),
    processorContract: t.field({
      type: 'Sha256',
      nullable: true,
      description: 'Which processor and toolchain made the result.',
      resolve: (job) => job.processorContract,
    }),
  }),
})

const JobFilterInput = builder.inputType('JobFilter', {
  description: 'Which jobs.',
  fields: (t) => ({
    projectId: t.globalID({
      for: ProjectNode,
      description: "Everyone's jobs of this project in place of your own jobs.",
    }),
    states: t.field({ type: [JobStateEnum], description: 'In one of these states.' }),
  }),
})

builder.queryFields((t) => ({
  job: t.field({
    type: JobNode,
    nullable: true,
    description: 'The job with this id.',
    args: { id: t.arg.globalID({ required: true, for: JobNode, description: 'Global id of a job.' }) },
    resolve: async (_root, { id }, { loaders }) => {
      const job = await loaders.job.load(id.id)
      if (!job) throw new NotFoundError('No job')
      return job
    },
  }),
  jobs: t.connection(
    {
      type: JobNode,
      description: 'Your jobs, newest first.',
      args: { filter: t.arg({ type: JobFilterInput, description: 'Which jobs.' }) },
      resolve: (_root, { filter, ...args }, { processing, viewer }) =>
        keysetConnection(args, (page) =>
          processing.jobs.page(
            viewer.id,
            { projectId: filter?.projectId?.id ?? null, states: filter?.states ?? null },
            page,
          ),
        ),
    },
    { description: 'Jobs, newest first.' },
    { description: 'A job in a list.' },
  ),
}))

builder.objectField(ProjectNode, 'jobs', (t) =>
  t.connection(
    {
      type: JobNode,
      description: "Everyone's jobs of the project, newest first.",
      resolve: (project, args, { processing, viewer }) =>
        keysetConnection(args, (page) =>
          processing.jobs.page(viewer.id, { projectId: project.id, states: null }, page),
        ),
    },
    { name: 'ProjectJobsConnection', description: 'Jobs of a project, newest first.' },
    { name: 'ProjectJobsConnectionEdge', description: 'A job of a project.' },
  ),
)
