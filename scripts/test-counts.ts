/** How the tests of one vitest project ended. */
export interface ProjectCount {
  readonly project: string
  readonly passed: number
  /** A skipped test counts too: what is not run is not known to work. */
  readonly failed: number
}

export interface TestFile {
  readonly project: string
  /** Whether the file itself could not be loaded, or a hook outside its tests failed. */
  readonly broken: boolean
  readonly tests: readonly ('passed' | 'failed' | 'skipped' | 'pending')[]
}

/** Sums up by project, in the order of `projects`; a broken file counts as one failure. */
export function countByProject(projects: readonly string[], files: readonly TestFile[]): ProjectCount[] {
  return projects.map((project) => {
    const mine = files.filter((file) => file.project === project)
    const tests = mine.flatMap((file) => file.tests)
    const passed = tests.filter((state) => state === 'passed').length
    const broken = mine.filter((file) => file.broken && !file.tests.includes('failed')).length
    return { project, passed, failed: tests.length - passed + broken }
  })
}

/** The table, then what machines read as the last line. A project without tests is a failure unless `filtered`. */
export function report(
  counts: readonly ProjectCount[],
  filtered: boolean,
  otherErrors: number,
): { text: string; ok: boolean } {
  const shown = counts.filter(({ passed, failed }) => !filtered || passed + failed > 0)
  const empty = shown.filter(({ passed, failed }) => passed + failed === 0)
  const sum = (pick: (count: ProjectCount) => number) => counts.reduce((total, count) => total + pick(count), 0)
  const passed = sum((count) => count.passed)
  const failed = sum((count) => count.failed) + empty.length + otherErrors
  const lines = [
    ...shown.map((count) => `${count.project.padEnd(13)} ${count.passed} passed, ${count.failed} failed`),
    ...empty.map(({ project }) => `The project ${project} has no tests; that counts as a failure.`),
    ...(otherErrors > 0 ? [`${otherErrors} errors outside any test; each counts as a failure.`] : []),
    ...(passed + failed === 0 ? ['No test matches.'] : []),
    `${passed} passed, ${failed} failed`,
  ]
  return { text: lines.join('\n'), ok: failed === 0 && passed > 0 }
}
