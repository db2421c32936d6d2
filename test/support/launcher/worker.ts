// Stands in for the worker where only the launcher is tested.
import { createServer } from 'node:net'

// Keeps the process alive, as a session with Core would.
createServer().listen(0, '127.0.0.1')
console.error(`worker environment ${JSON.stringify(process.env)}`)
process.on('SIGTERM', () => {
  console.error(`stops at ${process.hrtime.bigint()}`)
  process.exit(0)
})
process.send?.(process.env.WISH === 'wait' ? { type: 'waiting', reasons: ['xelatex is missing'] } : { type: 'ready' })
