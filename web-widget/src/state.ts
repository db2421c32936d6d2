import { isActive, type Task } from './types.ts'

/** What the center knows of the server. */
export type Connection = 'loading' | 'live' | 'offline' | 'unauthorized'

export interface State {
  readonly connection: Connection
  /** Newest first. */
  readonly tasks: readonly Task[]
  readonly open: boolean
  /** Tasks whose findings are shown. */
  readonly expanded: ReadonlySet<string>
}

export type Change =
  | { readonly kind: 'listed'; readonly tasks: readonly Task[] }
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'connection'; readonly connection: Connection }
  | { readonly kind: 'toggle'; readonly open: boolean }
  | { readonly kind: 'expand'; readonly id: string }
  /** Another account: nothing of the former one may stay. */
  | { readonly kind: 'account' }

export const initial: State = { connection: 'loading', tasks: [], open: false, expanded: new Set() }

export function reduce(state: State, change: Change): State {
  switch (change.kind) {
    case 'listed': {
      const known = new Map(state.tasks.map((task) => [task.id, task]))
      const tasks = change.tasks.map((task) => newer(known.get(task.id), task))
      return { ...state, tasks: inOrder(tasks), connection: 'live' }
    }
    case 'task': {
      const known = state.tasks.find((task) => task.id === change.task.id)
      const task = newer(known, change.task)
      return { ...state, tasks: inOrder([task, ...state.tasks.filter((other) => other.id !== task.id)]) }
    }
    case 'connection':
      return change.connection === 'unauthorized'
        ? { ...state, connection: 'unauthorized', tasks: [] }
        : { ...state, connection: change.connection }
    case 'toggle':
      return { ...state, open: change.open }
    case 'expand': {
      const expanded = new Set(state.expanded)
      if (!expanded.delete(change.id)) expanded.add(change.id)
      return { ...state, expanded }
    }
    case 'account':
      return { ...initial, open: state.open }
  }
}

/** A late message never takes a task back. */
function newer(known: Task | undefined, given: Task): Task {
  return known !== undefined && BigInt(known.version) > BigInt(given.version) ? known : given
}

const inOrder = (tasks: readonly Task[]): readonly Task[] =>
  [...tasks].sort((a, b) => (a.createdAt < b.createdAt ? 1 : a.createdAt > b.createdAt ? -1 : a.id < b.id ? 1 : -1))

export const activeTasks = (state: State): readonly Task[] => state.tasks.filter(isActive)
export const finishedTasks = (state: State): readonly Task[] => state.tasks.filter((task) => !isActive(task))
