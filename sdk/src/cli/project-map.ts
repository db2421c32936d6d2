import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

/** Which project a folder was built as, by server, principal and folder: kept so that only changes are sent again. */
export class ProjectMap {
  readonly #path: string

  constructor(environment: NodeJS.ProcessEnv = process.env) {
    const state = environment.XDG_STATE_HOME || join(homedir(), '.local', 'state')
    this.#path = join(state, 'platen', 'projects.json')
  }

  async find(key: ProjectKey): Promise<string | null> {
    return (await this.#read())[keyOf(key)] ?? null
  }

  async remember(key: ProjectKey, projectId: string): Promise<void> {
    const all = { ...(await this.#read()), [keyOf(key)]: projectId }
    await mkdir(dirname(this.#path), { recursive: true })
    // Two builds at once may each lose the other's line; neither leaves half a file.
    const temporary = `${this.#path}.${randomBytes(6).toString('hex')}`
    await writeFile(temporary, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 })
    await rename(temporary, this.#path)
  }

  async #read(): Promise<Record<string, string>> {
    try {
      return JSON.parse(await readFile(this.#path, 'utf8'))
    } catch {
      return {}
    }
  }
}

export interface ProjectKey {
  readonly url: string
  readonly viewerId: string
  /** Absolute, without links. */
  readonly directory: string
}

const keyOf = ({ url, viewerId, directory }: ProjectKey): string => `${url} ${viewerId} ${directory}`
