import type { LatexEngine } from '@platen/worker/protocol'
import { builder, closedEnum } from '../../../graphql/builder.ts'
import { keysetConnection } from '../../../graphql/connections.ts'
import { loadEach } from '../../../graphql/context.ts'
import { NotFoundError } from '../../../platform/errors.ts'
import { ProjectRoleEnum } from '../../access/graphql/viewer.ts'
import type { Project, ProjectFile, ProjectSettings, ProjectType } from '../index.ts'

export const ProjectTypeEnum = closedEnum<ProjectType>('ProjectType', 'What a project is written in.', {
  LATEX: 'LaTeX.',
  TYPST: 'Typst.',
})

export const LatexEngineEnum = closedEnum<LatexEngine>('LatexEngine', 'Engines of LaTeX.', {
  pdflatex: 'pdfTeX.',
  xelatex: 'XeTeX.',
  lualatex: 'LuaTeX with HarfBuzz where present.',
})

const FileKindEnum = closedEnum<'document' | 'asset'>('FileKind', 'How a file is kept.', {
  document: 'Text that people edit together.',
  asset: 'Immutable bytes.',
})

export const ProjectFileType = builder.objectRef<ProjectFile>('ProjectFile')
ProjectFileType.implement({
  description: 'A file of a project.',
  fields: (t) => ({
    id: t.globalID({ description: 'Global id.', resolve: (file) => ({ type: ProjectFileType, id: file.id }) }),
    path: t.exposeString('path', { description: 'Path in the project, with `/` between folders.' }),
    kind: t.field({ type: FileKindEnum, description: 'How it is kept.', resolve: (file) => file.kind }),
    byteLength: t.field({
      type: 'BigInt',
      description: 'Bytes, as UTF-8 for documents.',
      resolve: (file) => file.byteLength,
    }),
    sha256: t.field({ type: 'Sha256', description: 'Of these bytes.', resolve: (file) => file.sha256 }),
    updatedAt: t.field({ type: 'DateTime', description: 'Last accepted change.', resolve: (file) => file.updatedAt }),
  }),
})

const ProjectSettingsType = builder.objectRef<ProjectSettings>('ProjectSettings').implement({
  description: 'What builds of a project start from.',
  fields: (t) => ({
    engine: t.field({
      type: LatexEngineEnum,
      nullable: true,
      description: 'Null lets the document decide.',
      resolve: (settings) => settings.engine,
    }),
    entryPath: t.exposeString('entryPath', {
      nullable: true,
      description: 'File to start from; null lets the build find it.',
    }),
    sourceEpoch: t.field({
      type: 'BigInt',
      nullable: true,
      description: 'Clock of builds in seconds since 1970; null for a fixed moment.',
      resolve: (settings) => settings.sourceEpoch,
    }),
  }),
})

export const ProjectNode = builder.objectRef<Project>('Project')
builder.node(ProjectNode, {
  description: 'A tree of files that builds start from.',
  id: { resolve: (project) => project.id, description: 'Global id.' },
  loadMany: (ids, { loaders }) => loadEach(loaders.project, ids),
  fields: (t) => ({
    name: t.exposeString('name', { description: 'For people; not unique.' }),
    type: t.field({ type: ProjectTypeEnum, description: 'What it is written in.', resolve: (project) => project.type }),
    role: t.field({
      type: ProjectRoleEnum,
      description: 'What you may do in it.',
      resolve: async (project, _args, { loaders }) => (await loaders.role.load(project.id)) ?? 'viewer',
    }),
    settings: t.field({
      type: ProjectSettingsType,
      description: 'What builds start from.',
      resolve: (project) => project,
    }),
    generation: t.field({
      type: 'BigInt',
      description: 'Counts accepted changes.',
      resolve: (project) => project.generation,
    }),
    createdAt: t.field({
      type: 'DateTime',
      description: 'When it was created.',
      resolve: (project) => project.createdAt,
    }),
    updatedAt: t.field({
      type: 'DateTime',
      description: 'Last accepted change.',
      resolve: (project) => project.updatedAt,
    }),
    files: t.field({
      type: [ProjectFileType],
      description: 'All files, sorted by path.',
      resolve: async (project, _args, { loaders }) => [...(await loaders.files.load(project.id))],
    }),
  }),
})

builder.queryFields((t) => ({
  project: t.field({
    type: ProjectNode,
    nullable: true,
    description: 'The project with this id.',
    args: { id: t.arg.globalID({ required: true, for: ProjectNode, description: 'Global id of a project.' }) },
    resolve: async (_root, { id }, { loaders }) => {
      const project = await loaders.project.load(id.id)
      if (!project) throw new NotFoundError('No project')
      return project
    },
  }),
  projects: t.connection(
    {
      type: ProjectNode,
      description: 'Projects you may see, newest first.',
      resolve: (_root, args, { workspace, viewer }) =>
        keysetConnection(args, (page) => workspace.projects.page(viewer.id, page)),
    },
    { description: 'Projects, newest first.' },
    { description: 'A project in a list.' },
  ),
}))
