import { LitElement, type PropertyValues } from 'lit'
import { createTaskClient, RequestError, type TaskClient } from './client.ts'
import { activeTasks, type Change, initial, reduce, type State } from './state.ts'
import { styles } from './styles.ts'
import type { Artifact, Task } from './types.ts'
import { view } from './view.ts'

const listed = 30
const busyMilliseconds = 4_000
const idleMilliseconds = 20_000

/**
 * The tasks of one account, live: a button with a badge that opens a drawer.
 *
 * @fires platen-task-finished - a task that this element saw running has ended; `detail.task`
 * @csspart button - the launcher
 * @csspart badge - the number of active tasks
 * @csspart drawer - the dialog
 * @csspart task - one task
 * @csspart findings - what was found about a document
 * @cssproperty --platen-accent - colour of buttons and progress
 * @cssproperty --platen-surface - background
 * @cssproperty --platen-text - text
 */
export class TaskCenter extends LitElement {
  static override styles = styles
  static override properties = {
    endpoint: { type: String },
    token: { type: String },
    getToken: { attribute: false },
  }

  /** Address of the GraphQL endpoint. @default '/graphql' */
  declare endpoint: string
  /** API token. Give short-lived ones through {@link getToken}. */
  declare token: string
  /** Called for each request and each connection; in place of {@link token}. */
  declare getToken: (() => string | Promise<string>) | null

  #state: State = initial
  #client: TaskClient | null = null
  readonly #watches = new Map<string, () => void>()
  #poll: ReturnType<typeof setTimeout> | undefined
  #clock: ReturnType<typeof setInterval> | undefined
  readonly #onVisibility = () => {
    if (document.visibilityState === 'visible') void this.refresh()
    else clearTimeout(this.#poll)
  }

  constructor() {
    super()
    this.endpoint = '/graphql'
    this.token = ''
    this.getToken = null
  }

  override connectedCallback(): void {
    super.connectedCallback()
    document.addEventListener('visibilitychange', this.#onVisibility)
    this.#clock = setInterval(() => {
      if (activeTasks(this.#state).length > 0 || this.#state.open) this.requestUpdate()
    }, 1_000)
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback()
    document.removeEventListener('visibilitychange', this.#onVisibility)
    clearInterval(this.#clock)
    this.#disconnect()
  }

  override willUpdate(changed: PropertyValues<this>): void {
    if (changed.has('endpoint') || changed.has('token') || changed.has('getToken')) this.#reconnect()
  }

  override updated(): void {
    const dialog = this.renderRoot.querySelector('dialog')
    if (this.#state.open && !dialog?.open) dialog?.showModal()
    if (!this.#state.open && dialog?.open) dialog.close()
  }

  override render() {
    return view(this.#state, Date.now(), {
      toggle: (open) => {
        this.#change({ kind: 'toggle', open })
        if (open) void this.refresh()
      },
      expand: (id) => this.#change({ kind: 'expand', id }),
      cancel: (task) => void this.#cancel(task),
      download: (artifact) => void this.#download(artifact),
    })
  }

  /** Opens the drawer. */
  show(): void {
    this.#change({ kind: 'toggle', open: true })
    void this.refresh()
  }

  /** Reads the list again; call it after starting something. */
  async refresh(): Promise<void> {
    const client = this.#client
    if (!client) return
    clearTimeout(this.#poll)
    try {
      const tasks = await client.list(listed)
      if (client !== this.#client) return
      this.#change({ kind: 'listed', tasks })
      for (const task of activeTasks(this.#state)) this.#watch(task.id)
    } catch (error) {
      if (client !== this.#client) return
      const connection = error instanceof RequestError && error.unauthorized ? 'unauthorized' : 'offline'
      this.#change({ kind: 'connection', connection })
    }
    this.#schedule()
  }

  /** Live states come by subscription; the list is read for what began elsewhere, and not at all while hidden. */
  #schedule(): void {
    if (document.visibilityState !== 'visible' || this.#state.connection === 'unauthorized') return
    const busy = activeTasks(this.#state).length > 0 || this.#state.connection === 'offline'
    this.#poll = setTimeout(() => void this.refresh(), busy ? busyMilliseconds : idleMilliseconds)
  }

  #reconnect(): void {
    this.#disconnect()
    this.#state = reduce(this.#state, { kind: 'account' })
    if (this.token === '' && this.getToken === null) {
      this.#state = reduce(this.#state, { kind: 'connection', connection: 'unauthorized' })
      return
    }
    this.#client = createTaskClient(this.endpoint, async () => (this.getToken ? this.getToken() : this.token))
    void this.refresh()
  }

  #disconnect(): void {
    clearTimeout(this.#poll)
    for (const end of this.#watches.values()) end()
    this.#watches.clear()
    this.#client?.close()
    this.#client = null
  }

  #watch(id: string): void {
    if (this.#watches.has(id) || !this.#client) return
    const end = this.#client.watch(id, (task) => {
      this.#change({ kind: 'task', task })
      if (task.finishedAt === null) return
      this.#watches.get(id)?.()
      this.#watches.delete(id)
      this.dispatchEvent(new CustomEvent('platen-task-finished', { detail: { task }, bubbles: true, composed: true }))
    })
    this.#watches.set(id, end)
  }

  async #cancel(task: Task): Promise<void> {
    const client = this.#client
    const answer = await client?.cancel(task.id).catch(() => null)
    if (answer && client === this.#client) this.#change({ kind: 'task', task: answer })
  }

  async #download(artifact: Artifact): Promise<void> {
    const url = await this.#client?.downloadUrl(artifact.id).catch(() => null)
    if (!url) return void this.refresh()
    const link = document.createElement('a')
    link.href = url
    link.download = artifact.fileName
    link.click()
  }

  #change(change: Change): void {
    this.#state = reduce(this.#state, change)
    this.requestUpdate()
  }
}
