import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Limits } from '../protocol/index.ts'
import type { Executor, ExecutorOptions, Workspace } from './executor.ts'
import { openResult } from './open-result.ts'
import { Slots } from './slots.ts'
import { behindOthers, supervise } from './supervise.ts'
import { takeWorkspace } from './workspace-directory.ts'

/**
 * Runs programs as plain children with the rights of the worker: bounds, but no boundary. For development on documents
 * one trusts.
 */
export class SubprocessExecutor implements Executor {
  readonly kind = 'subprocess'
  readonly #options: ExecutorOptions
  readonly #slots: Slots

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#slots = new Slots(options.slots)
  }

  async open({ limits, signal }: { limits: Limits; signal: AbortSignal }): Promise<Workspace> {
    const { directory: workspace, release } = await takeWorkspace(
      this.#slots,
      this.#options.temporaryDirectory,
      () => null,
    )
    const { project, state, handOver } = workspace
    return {
      hostProject: project,
      hostState: state,
      projectPath: project,
      statePath: state,
      run: async ({ command, args, environment, directory }) => {
        await handOver()
        const [nice, ...rest] = [...behindOthers, command, ...args]
        const child = spawn(nice, rest, {
          env: { ...environment },
          cwd: join(project, directory),
          detached: true,
          stdio: ['ignore', 'pipe', 'pipe'],
        })
        const kill = () => {
          try {
            if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
          } catch {
            // It ended by itself.
          }
        }
        return supervise({ child, directories: [project, state], limits, signal, kill })
      },
      openResult: (path, maxBytes) => openResult(project, path, maxBytes),
      [Symbol.asyncDispose]: release,
    }
  }
}
