import { projectPathProblem } from '@platen/worker/protocol'
import type { ValidationIssue } from '../../../platform/errors.ts'

/**
 * Paths with equal keys are one name: disks of Macs and Windows could not keep them apart. Lower, upper and lower case
 * again, since some letters only meet on the way (`ß`, `ẞ` and `SS`, `ſ` and `s`).
 */
export const pathKey = (path: string): string =>
  path.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().normalize('NFC')

/** The directories above a path, topmost first. */
export function ancestors(path: string): string[] {
  const segments = path.split('/')
  return segments.slice(1).map((_, index) => segments.slice(0, index + 1).join('/'))
}

/** Names that Windows keeps for devices, with any extension. */
const deviceName = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?$/i

/**
 * Brings a path into the form it is stored in.
 *
 * @returns the path, or what is wrong with it
 */
export function normalizePath(given: string): { path: string } | { issue: ValidationIssue } {
  const path = given.isWellFormed() ? given.normalize('NFC') : given
  const refuse = (code: string, message: string) => ({ issue: { path: ['path', printable(given)], code, message } })
  if (path === '') return refuse('required', 'The path is empty.')
  if (path.length > 1024) return refuse('too_long', 'The path is longer than 1024 characters.')
  const problem = projectPathProblem(path)
  if (problem) return refuse('unsafe_path', `The path ${problem}. Use a relative path inside the project.`)
  if (path.includes('\\')) return refuse('unsafe_path', 'The path has a backslash. Separate folders with "/".')
  for (const segment of path.split('/')) {
    if (deviceName.test(segment))
      return refuse('reserved_name', `"${segment}" is a reserved name on Windows. Rename it.`)
    if (/[. ]$/.test(segment))
      return refuse('reserved_name', `"${segment}" ends in a dot or a space, which Windows drops. Rename it.`)
  }
  return { path }
}

const printable = (text: string): string => text.toWellFormed().slice(0, 200)

/** What a person reads when a new name meets one that is there. */
export function collisionIssue(path: string, existing: string): ValidationIssue {
  const message =
    pathKey(path) === pathKey(existing)
      ? `"${existing}" is there already and differs only in case or spelling. Use its exact name, or delete it first.`
      : `"${existing}" is there already, and one of the two would have to be a folder, or their folders differ only in case.`
  return { path: ['path', path], code: 'name_collision', message }
}
