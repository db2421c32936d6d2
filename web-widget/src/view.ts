import { html, nothing, type TemplateResult } from 'lit'
import { repeat } from 'lit/directives/repeat.js'
import { activeTasks, finishedTasks, type State } from './state.ts'
import { type Artifact, isActive, type Task } from './types.ts'
import { agoOf, counted, operationOf, sizeOf, spanOf, statusOf, steps, titleOf } from './words.ts'

/** What people can do in the center. */
export interface Actions {
  toggle(open: boolean): void
  expand(id: string): void
  cancel(task: Task): void
  download(artifact: Artifact): void
}

export function view(state: State, now: number, actions: Actions): TemplateResult {
  const active = activeTasks(state)
  const label = active.length > 0 ? `Tasks, ${counted(active.length, 'active task')}` : 'Tasks'
  return html`
    <button class="launcher" part="button" aria-haspopup="dialog" aria-expanded=${state.open} aria-label=${label} @click=${() => actions.toggle(true)}>
      ${listIcon} <span>Tasks</span>
      ${active.length > 0 ? html`<span class="badge" part="badge">${active.length}</span>` : nothing}
    </button>
    <dialog part="drawer" aria-label="Tasks" @close=${() => actions.toggle(false)} @click=${(event: Event) => closeOnBackdrop(event, actions)}>
      ${state.open ? drawer(state, now, actions) : nothing}
    </dialog>
    <span role="status" class="unseen">${active.length > 0 ? label : ''}</span>
  `
}

function closeOnBackdrop(event: Event, actions: Actions): void {
  if (event.target === event.currentTarget) actions.toggle(false)
}

const drawer = (state: State, now: number, actions: Actions) => html`
  <header>
    <h2>Tasks</h2>
    <button class="close" aria-label="Close" @click=${() => actions.toggle(false)}>×</button>
  </header>
  ${
    state.connection === 'offline'
      ? html`<p class="notice" role="alert">The server does not answer. Your tasks go on; this list catches up by itself.</p>`
      : nothing
  }
  <div class="scroll">${body(state, now, actions)}</div>
`

function body(state: State, now: number, actions: Actions) {
  if (state.connection === 'unauthorized') {
    return html`<div class="empty"><strong>You are signed out</strong>Sign in again to see your tasks.</div>`
  }
  if (state.connection === 'loading') {
    return html`<div aria-busy="true" aria-label="Loading">${[1, 2, 3].map(() => html`<div class="skeleton"></div>`)}</div>`
  }
  if (state.tasks.length === 0) {
    return html`<div class="empty"><strong>No tasks yet</strong>What you build appears here, and stays when you close the page.</div>`
  }
  return html`${group('Active', activeTasks(state), state, now, actions)}${group('Finished', finishedTasks(state), state, now, actions)}`
}

function group(title: string, tasks: readonly Task[], state: State, now: number, actions: Actions) {
  if (tasks.length === 0) return nothing
  return html`
    <h3>${title}</h3>
    <ul>
      ${repeat(
        tasks,
        (task) => task.id,
        (task) => item(task, state.expanded.has(task.id), now, actions),
      )}
    </ul>
  `
}

const item = (task: Task, expanded: boolean, now: number, actions: Actions) => html`
  <li class="task" part="task">
    <div class="head">
      <span class="icon ${tone(task)}" title=${operationOf(task)}>${documentIcon}</span>
      <span class="name">${titleOf(task)}</span>
      <span class="time">${timeOf(task, now)}</span>
      <span class="status ${tone(task)}">${statusOf(task)}</span>
    </div>
    ${isActive(task) ? bar(task) : nothing} ${controls(task, expanded, actions)} ${expanded ? findings(task) : nothing}
  </li>
`

const tone = (task: Task): string =>
  task.state === 'SUCCEEDED' ? 'good' : task.state === 'FAILED' ? 'bad' : isActive(task) ? '' : 'quiet'

function timeOf(task: Task, now: number): string {
  if (task.finishedAt === null) return spanOf(now - Date.parse(task.createdAt))
  return agoOf(task.finishedAt, now)
}

/** Steps, not percentages: nobody knows how long a document takes. */
function bar(task: Task) {
  const at = steps.indexOf(task.phase ?? '')
  return html`<div class="bar" role="progressbar" aria-label=${statusOf(task)}>
    ${steps.map((_step, index) => html`<i class=${index < at ? 'done' : index === at ? 'now' : ''}></i>`)}
  </div>`
}

function controls(task: Task, expanded: boolean, actions: Actions) {
  const stoppable = isActive(task) && task.state !== 'FINALIZING' && !task.cancelRequested
  const visible = task.artifacts.filter((artifact) => artifact.role !== 'SYNCTEX')
  const findingCount = task.diagnostics.length
  if (!stoppable && visible.length === 0 && findingCount === 0 && !task.failure) return nothing
  return html`<div class="actions">
    ${stoppable ? html`<button class="action" @click=${() => actions.cancel(task)}>Cancel</button>` : nothing}
    ${[...visible].reverse().map((artifact) => downloadButton(artifact, actions))}
    ${
      findingCount > 0 || task.failure
        ? html`<button class="action" aria-expanded=${expanded} @click=${() => actions.expand(task.id)}>
            ${expanded ? 'Hide details' : findingCount > 0 ? counted(findingCount, 'finding') : 'Details'}
          </button>`
        : nothing
    }
  </div>`
}

const downloadButton = (artifact: Artifact, actions: Actions) => html`
  <button class="action ${artifact.role === 'LOG' ? '' : 'primary'}" title=${artifact.fileName} @click=${() => actions.download(artifact)}>
    ${artifact.role} <small>${sizeOf(artifact.byteLength)}</small>
  </button>
`

const findings = (task: Task) => html`
  <ul class="findings" part="findings">
    ${task.failure && task.diagnostics.length === 0 ? html`<li class="message">${task.failure.message}</li>` : nothing}
    ${task.diagnostics.map(
      ({ severity, file, line, message, hint }) => html`
        <li>
          <span class="severity ${severity}">${severity}</span>
          ${file === null ? nothing : html`<span class="place">${file}${line === null ? '' : `:${line}`}</span>`}
          <div class="message">${message}</div>
          ${hint === null ? nothing : html`<div class="hint">${hint}</div>`}
        </li>
      `,
    )}
  </ul>
`

const listIcon = html`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" aria-hidden="true"><path d="M6 4h8M6 8h8M6 12h8M2 4h.01M2 8h.01M2 12h.01" /></svg>`
const documentIcon = html`<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" aria-hidden="true"><path d="M5 2.75h6.5L15.5 7v10.25h-10.5z" /><path d="M11.25 3v4.25h4" /><path d="M7.75 11h5M7.75 14h3.5" /></svg>`
