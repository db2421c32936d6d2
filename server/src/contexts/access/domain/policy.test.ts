import { describe, expect, it } from 'vitest'
import { type ProjectAction, type ProjectRole, permits } from './policy.ts'

const table: Record<ProjectAction, Record<ProjectRole | 'none', boolean>> = {
  'project:read': { none: false, viewer: true, editor: true, owner: true },
  'project:write': { none: false, viewer: false, editor: true, owner: true },
  'project:submit': { none: false, viewer: false, editor: true, owner: true },
  'project:manage': { none: false, viewer: false, editor: false, owner: true },
}

describe('project policy', () => {
  for (const [action, row] of Object.entries(table)) {
    for (const [role, expected] of Object.entries(row)) {
      it(`${expected ? 'lets' : 'keeps'} ${role} ${expected ? 'do' : 'from'} ${action}`, () => {
        expect(permits(role === 'none' ? null : (role as ProjectRole), action as ProjectAction)).toBe(expected)
      })
    }
  }
})
