import { builder, closedEnum } from '../../../graphql/builder.ts'
import type { ProjectRole, Viewer } from '../index.ts'

const ViewerType = builder.objectRef<Viewer>('Viewer')
ViewerType.implement({
  description: 'The principal that the token stands for.',
  fields: (t) => ({
    id: t.globalID({ description: 'Global id.', resolve: (viewer) => ({ type: ViewerType, id: viewer.id }) }),
    name: t.exposeString('name', { description: 'For people.' }),
  }),
})

export const ProjectRoleEnum = closedEnum<ProjectRole>('ProjectRole', 'What a principal may do in a project.', {
  owner: 'All, including deletion and access.',
  editor: 'Read, change and build.',
  viewer: 'Read.',
})

builder.queryField('viewer', (t) =>
  t.field({
    type: ViewerType,
    description: 'Whom the token stands for.',
    resolve: (_root, _args, { viewer }) => viewer,
  }),
)
