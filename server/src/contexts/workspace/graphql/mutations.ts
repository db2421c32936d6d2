import { z } from 'zod'
import { builder } from '../../../graphql/builder.ts'
import { idempotencyKey, oneLine, parseInput } from '../../../graphql/input.ts'
import { IdempotencyConflictError, QuotaExceededError, ValidationError } from '../../../platform/errors.ts'
import { ProjectRoleEnum } from '../../access/graphql/viewer.ts'
import type { Project, ProjectFile } from '../index.ts'
import { LatexEngineEnum, ProjectFileType, ProjectNode, ProjectTypeEnum } from './project.ts'

const ProjectSettingsInput = builder.inputType('ProjectSettingsInput', {
  description: 'Settings to set; a field that is left out keeps its value, null clears it.',
  fields: (t) => ({
    engine: t.field({ type: LatexEngineEnum, description: 'Engine, or null to let the document decide.' }),
    entryPath: t.string({ description: 'File to start from, or null to find it.' }),
    sourceEpoch: t.field({ type: 'BigInt', description: 'Clock of builds in seconds since 1970.' }),
  }),
})
const settings = z.object({
  engine: z.enum(['pdflatex', 'xelatex', 'lualatex']).nullish(),
  entryPath: z.string().nullish(),
  sourceEpoch: z.int().min(0, 'Seconds since 1970 are not negative.').nullish(),
})

const CreateProjectInput = builder.inputType('CreateProjectInput', {
  description: 'A new project.',
  fields: (t) => ({
    name: t.string({ required: true, description: 'For people, 1 to 200 characters.' }),
    type: t.field({ type: ProjectTypeEnum, required: true, description: 'What it is written in.' }),
    settings: t.field({ type: ProjectSettingsInput, description: 'What builds start from.' }),
    idempotencyKey: t.string({
      required: true,
      description: 'Your own id of this command; the same again creates nothing new.',
    }),
  }),
})
const createProject = z.object({
  name: oneLine('The name').trim().min(1, 'A project has a name.').max(200, 'A name has at most 200 characters.'),
  type: z.enum(['LATEX', 'TYPST']),
  settings: settings.nullish(),
  idempotencyKey,
})
const CreateProjectPayload = builder
  .objectRef<{ project: Project; replayed: boolean }>('CreateProjectPayload')
  .implement({
    description: 'The project.',
    fields: (t) => ({
      project: t.field({
        type: ProjectNode,
        description: 'The new project, or the one this key created before.',
        resolve: (payload) => payload.project,
      }),
      replayed: t.exposeBoolean('replayed', {
        description: 'Whether an earlier command with this key had created it.',
      }),
    }),
  })

const UpdateProjectSettingsPayload = builder.objectRef<{ project: Project }>('UpdateProjectSettingsPayload').implement({
  description: 'The changed project.',
  fields: (t) => ({
    project: t.field({ type: ProjectNode, description: 'The project.', resolve: (payload) => payload.project }),
  }),
})
const UpdateProjectSettingsInput = builder.inputType('UpdateProjectSettingsInput', {
  description: 'Settings of a project to change.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    settings: t.field({ type: ProjectSettingsInput, required: true, description: 'What to set.' }),
  }),
})

const filePayload = (name: string, description: string) =>
  builder.objectRef<{ file: ProjectFile }>(name).implement({
    description,
    fields: (t) => ({
      file: t.field({
        type: ProjectFileType,
        description: 'The file as it is now.',
        resolve: (payload) => payload.file,
      }),
    }),
  })
const WriteDocumentPayload = filePayload('WriteDocumentPayload', 'The written document.')
const WriteAssetPayload = filePayload('WriteAssetPayload', 'The written asset.')
const MoveFilePayload = filePayload('MoveFilePayload', 'The moved file.')

const WriteDocumentInput = builder.inputType('WriteDocumentInput', {
  description: 'A text document to write over, or to create.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    path: t.string({ required: true, description: 'Path in the project.' }),
    text: t.string({ required: true, description: 'The whole text.' }),
  }),
})

interface NewUpload {
  readonly id: string
  readonly url: string
  readonly expiresAt: Date
}
const UploadType = builder.objectRef<NewUpload>('Upload')
UploadType.implement({
  description: 'A right to send bytes.',
  fields: (t) => ({
    id: t.globalID({
      description: 'Global id, for `writeAsset`.',
      resolve: (upload) => ({ type: UploadType, id: upload.id }),
    }),
    url: t.exposeString('url', { description: 'Where to PUT exactly the declared bytes: a path of this server.' }),
    expiresAt: t.field({
      type: 'DateTime',
      description: 'When the right ends.',
      resolve: (upload) => upload.expiresAt,
    }),
  }),
})
const CreateUploadPayload = builder.objectRef<{ upload: NewUpload }>('CreateUploadPayload').implement({
  description: 'The upload.',
  fields: (t) => ({
    upload: t.field({
      type: UploadType,
      description: 'Where to send the bytes.',
      resolve: (payload) => payload.upload,
    }),
  }),
})
const CreateUploadInput = builder.inputType('CreateUploadInput', {
  description: 'Bytes that are to be sent.',
  fields: (t) => ({
    byteLength: t.field({ type: 'BigInt', required: true, description: 'How many.' }),
    sha256: t.field({ type: 'Sha256', required: true, description: 'Their digest.' }),
  }),
})

const WriteAssetInput = builder.inputType('WriteAssetInput', {
  description: 'A file to write over, or to create, from uploaded bytes.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    path: t.string({ required: true, description: 'Path in the project.' }),
    uploadId: t.globalID({ required: true, description: 'A finished upload of yours.' }),
  }),
})

const MoveFileInput = builder.inputType('MoveFileInput', {
  description: 'A file to move or rename.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    from: t.string({ required: true, description: 'Its path.' }),
    to: t.string({ required: true, description: 'Its new path.' }),
  }),
})

const DeleteFileInput = builder.inputType('DeleteFileInput', {
  description: 'A file to delete.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    path: t.string({ required: true, description: 'Its path.' }),
  }),
})
const DeleteFilePayload = builder.objectRef<{ deletedPath: string }>('DeleteFilePayload').implement({
  description: 'The file is gone.',
  fields: (t) => ({ deletedPath: t.exposeString('deletedPath', { description: 'Its path.' }) }),
})

const DeleteProjectInput = builder.inputType('DeleteProjectInput', {
  description: 'A project to delete.',
  fields: (t) => ({ projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }) }),
})
const DeleteProjectPayload = builder.objectRef<{ id: string }>('DeleteProjectPayload').implement({
  description: 'The project is gone.',
  fields: (t) => ({
    deletedProjectId: t.globalID({
      description: 'Its global id.',
      resolve: (payload) => ({ type: ProjectNode, id: payload.id }),
    }),
  }),
})

const AccessPayload = (name: string, description: string) =>
  builder.objectRef<{ project: Project }>(name).implement({
    description,
    fields: (t) => ({
      project: t.field({ type: ProjectNode, description: 'The project.', resolve: (payload) => payload.project }),
    }),
  })
const GrantProjectAccessPayload = AccessPayload('GrantProjectAccessPayload', 'Access is granted.')
const RevokeProjectAccessPayload = AccessPayload('RevokeProjectAccessPayload', 'Access is revoked.')
const GrantProjectAccessInput = builder.inputType('GrantProjectAccessInput', {
  description: 'A role in a project for a principal.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    principalId: t.globalID({ required: true, description: 'The principal; its `viewer.id`.' }),
    role: t.field({ type: ProjectRoleEnum, required: true, description: 'The role; it replaces an earlier one.' }),
  }),
})
const RevokeProjectAccessInput = builder.inputType('RevokeProjectAccessInput', {
  description: 'A principal that is to lose a project.',
  fields: (t) => ({
    projectId: t.globalID({ required: true, for: ProjectNode, description: 'The project.' }),
    principalId: t.globalID({ required: true, description: 'The principal.' }),
  }),
})

builder.mutationFields((t) => ({
  createProject: t.field({
    type: CreateProjectPayload,
    nullable: true,
    description: 'Creates an empty project that belongs to you.',
    errors: {
      types: [ValidationError, IdempotencyConflictError],
      union: { name: 'CreateProjectResult', description: 'What came of it.' },
    },
    args: { input: t.arg({ type: CreateProjectInput, required: true, description: 'The project.' }) },
    resolve: (_root, { input }, { workspace, viewer }) => {
      const { settings: given, ...project } = parseInput(createProject, input)
      const { engine = null, entryPath = null, sourceEpoch = null } = given ?? {}
      return workspace.projects.create(viewer.id, { ...project, settings: { engine, entryPath, sourceEpoch } })
    },
  }),
  updateProjectSettings: t.field({
    type: UpdateProjectSettingsPayload,
    nullable: true,
    description: 'Changes what builds of a project start from.',
    errors: {
      types: [ValidationError],
      union: { name: 'UpdateProjectSettingsResult', description: 'What came of it.' },
    },
    args: { input: t.arg({ type: UpdateProjectSettingsInput, required: true, description: 'The settings.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => {
      const given = Object.fromEntries(
        Object.entries(parseInput(settings, input.settings)).filter(([, value]) => value !== undefined),
      )
      return { project: await workspace.projects.updateSettings(viewer.id, input.projectId.id, given) }
    },
  }),
  writeDocument: t.field({
    type: WriteDocumentPayload,
    nullable: true,
    description: 'Writes a text document. Only what differs is replaced, so that editors keep their place.',
    errors: { types: [ValidationError], union: { name: 'WriteDocumentResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: WriteDocumentInput, required: true, description: 'The document.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => ({
      file: await workspace.files.writeDocument(viewer.id, input.projectId.id, input.path, input.text),
    }),
  }),
  createUpload: t.field({
    type: CreateUploadPayload,
    nullable: true,
    description: 'Asks for a place to send bytes to.',
    errors: {
      types: [ValidationError, QuotaExceededError],
      union: { name: 'CreateUploadResult', description: 'What came of it.' },
    },
    args: { input: t.arg({ type: CreateUploadInput, required: true, description: 'The bytes.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => {
      const declared = parseInput(
        z.object({ byteLength: z.int().min(0, 'A number of bytes is not negative.'), sha256: z.string() }),
        input,
      )
      return { upload: await workspace.uploads.create(viewer.id, declared) }
    },
  }),
  writeAsset: t.field({
    type: WriteAssetPayload,
    nullable: true,
    description: 'Makes uploaded bytes a file of a project.',
    errors: { types: [ValidationError], union: { name: 'WriteAssetResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: WriteAssetInput, required: true, description: 'The file.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => ({
      file: await workspace.files.writeAsset(viewer.id, input.projectId.id, input.path, input.uploadId.id),
    }),
  }),
  moveFile: t.field({
    type: MoveFilePayload,
    nullable: true,
    description: 'Moves or renames a file.',
    errors: { types: [ValidationError], union: { name: 'MoveFileResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: MoveFileInput, required: true, description: 'The file.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => ({
      file: await workspace.files.move(viewer.id, input.projectId.id, input.from, input.to),
    }),
  }),
  deleteFile: t.field({
    type: DeleteFilePayload,
    nullable: true,
    description: 'Deletes a file. Jobs that captured it keep it until they end.',
    errors: { types: [ValidationError], union: { name: 'DeleteFileResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: DeleteFileInput, required: true, description: 'The file.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => ({
      deletedPath: await workspace.files.remove(viewer.id, input.projectId.id, input.path),
    }),
  }),
  deleteProject: t.field({
    type: DeleteProjectPayload,
    nullable: true,
    description: 'Deletes a project for everyone.',
    errors: { types: [ValidationError], union: { name: 'DeleteProjectResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: DeleteProjectInput, required: true, description: 'The project.' }) },
    resolve: async (_root, { input }, { workspace, viewer }) => {
      await workspace.projects.remove(viewer.id, input.projectId.id)
      return { id: input.projectId.id }
    },
  }),
  grantProjectAccess: t.field({
    type: GrantProjectAccessPayload,
    nullable: true,
    description: 'Gives a principal a role in a project of yours.',
    errors: { types: [ValidationError], union: { name: 'GrantProjectAccessResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: GrantProjectAccessInput, required: true, description: 'The role.' }) },
    resolve: async (_root, { input }, { access, loaders, viewer }) => {
      const { projectId: project, principalId: principal, role } = input
      await access.grant(viewer.id, { projectId: project.id, principalId: principal.id, role })
      return { project: (await loaders.project.load(project.id)) as Project }
    },
  }),
  revokeProjectAccess: t.field({
    type: RevokeProjectAccessPayload,
    nullable: true,
    description: 'Takes a project from a principal. Its links and streams end with it.',
    errors: { types: [ValidationError], union: { name: 'RevokeProjectAccessResult', description: 'What came of it.' } },
    args: { input: t.arg({ type: RevokeProjectAccessInput, required: true, description: 'The principal.' }) },
    resolve: async (_root, { input }, { access, loaders, viewer }) => {
      const project = await loaders.project.load(input.projectId.id)
      await access.revoke(viewer.id, input.projectId.id, input.principalId.id)
      return { project: project as Project }
    },
  }),
}))
