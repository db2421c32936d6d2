// Stands in for Core where only the launcher is tested: it reports what it was given and obeys one wish.
import { createServer } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'

if (process.env.WISH === 'refuse') {
  process.emitWarning('an option is old')
  await delay(1)
  console.error('platen.toml, line 3: enabled must be true or false.')
  process.exit(1)
}
if (process.env.WISH === 'never ready') await delay(600_000)

const server = createServer((request, response) => {
  if (request.url === '/die') process.exit(7)
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(process.env))
})
server.listen(Number(process.env.PORT), process.env.HOST, () => {
  const address = server.address()
  console.error('core is listening')
  process.send?.({ type: 'ready', port: typeof address === 'object' ? address?.port : undefined })
})
process.on('SIGTERM', () => {
  console.error(`stops at ${process.hrtime.bigint()}`)
  process.exit(0)
})
