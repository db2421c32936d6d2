import { TaskCenter } from './task-center.ts'

if (!customElements.get('platen-task-center')) customElements.define('platen-task-center', TaskCenter)

export { TaskCenter }
