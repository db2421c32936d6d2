import { posix } from 'node:path'

/** Turns names as TeX prints them into paths of the project. */
export class ProjectFiles {
  readonly paths: ReadonlySet<string>
  readonly #directory: string
  readonly #projectPath: string

  /**
   * @param paths of the project
   * @param directory of the entry, where TeX ran
   * @param projectPath the project as TeX saw it
   */
  constructor(paths: readonly string[], directory: string, projectPath: string) {
    this.paths = new Set(paths)
    this.#directory = directory
    this.#projectPath = projectPath
  }

  /** The path of the project that `name` means, or null. */
  resolve(name: string): string | null {
    const unquoted = name.replace(/^"(.*)"$/, '$1')
    const inside = unquoted.startsWith(`${this.#projectPath}/`)
      ? unquoted.slice(this.#projectPath.length + 1)
      : unquoted.startsWith('/')
        ? null
        : posix.join(this.#directory, unquoted)
    if (inside === null) return null
    const path = posix.normalize(inside).normalize('NFC')
    if (this.paths.has(path)) return path
    // Through TEXINPUTS TeX may also have found it from the project's root, or have left its extension out.
    const others = [`${path}.tex`, posix.normalize(unquoted), `${posix.normalize(unquoted)}.tex`]
    return others.find((other) => this.paths.has(other)) ?? null
  }

  /** The path that `name` would have if there were such a file. */
  wouldBe(name: string): string {
    return posix.normalize(posix.join(this.#directory, name))
  }

  /** A path that differs from `name` only in case, or null. */
  nearMatch(name: string): string | null {
    const wanted = this.wouldBe(name).toLowerCase()
    for (const path of this.paths) {
      const lower = path.toLowerCase()
      if (path !== this.wouldBe(name) && (lower === wanted || lower.replace(/\.[^./]+$/, '') === wanted)) return path
    }
    return null
  }
}
