/** The longest name that common file systems store, in bytes. */
const longestNameBytes = 255
const longestPathUnits = 1024

/**
 * Says what is wrong with a path of a project, or null when it may name a file below any directory.
 *
 * @remarks Pure syntax: uniqueness and conflicts between paths are {@link treeProblem}'s.
 */
export function projectPathProblem(path: string): string | null {
  if (path.length === 0) return 'is empty'
  if (path.length > longestPathUnits) return `is longer than ${longestPathUnits} characters`
  if (!path.isWellFormed()) return 'is not well-formed Unicode'
  if (path.normalize('NFC') !== path) return 'is not in Unicode normalization form C'
  if (path.startsWith('/')) return 'is absolute'
  for (const segment of path.split('/')) {
    if (segment === '') return 'has an empty segment'
    if (segment === '.' || segment === '..') return `has a "${segment}" segment`
    if (hasControlCharacter(segment)) return 'has a control character'
    if (Buffer.byteLength(segment) > longestNameBytes) return `has a name longer than ${longestNameBytes} bytes`
  }
  return null
}

/**
 * Says what is wrong with a list of paths as a tree: each must be sound, the list strictly ascending by UTF-16 code
 * units (which excludes duplicates), and no file may also be a directory.
 */
export function treeProblem(paths: readonly string[]): string | null {
  const files = new Set(paths)
  let previous: string | null = null
  for (const path of paths) {
    const problem = projectPathProblem(path)
    if (problem !== null) return `path ${JSON.stringify(path)} ${problem}`
    if (path === previous) return `path ${JSON.stringify(path)} appears twice`
    if (previous !== null && path < previous) return `path ${JSON.stringify(path)} is out of order`
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const directory = path.slice(0, slash)
      if (files.has(directory)) return `path ${JSON.stringify(directory)} is both a file and a directory`
    }
    previous = path
  }
  return null
}

function hasControlCharacter(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit < 0x20 || unit === 0x7f) return true
  }
  return false
}
