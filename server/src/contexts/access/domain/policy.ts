/** Roles of a principal in a project, weakest first. */
export const projectRoles = ['viewer', 'editor', 'owner'] as const
export type ProjectRole = (typeof projectRoles)[number]

const allowed = {
  'project:read': 'viewer',
  'project:write': 'editor',
  'project:submit': 'editor',
  'project:manage': 'owner',
} as const satisfies Record<string, ProjectRole>

export type ProjectAction = keyof typeof allowed

/** Whether someone with this role (null: none) may do this in a project. */
export const permits = (role: ProjectRole | null, action: ProjectAction): boolean =>
  role !== null && projectRoles.indexOf(role) >= projectRoles.indexOf(allowed[action])
