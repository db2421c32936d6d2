import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

interface Link {
  readonly near: Socket
  readonly far: Socket
  listens: boolean
}

/**
 * A fixed address for a PostgreSQL that comes and goes. While it is away nothing listens, as on a real machine; a link
 * can be made deaf in both directions without being closed, as when a firewall forgets it.
 */
export class DatabaseProxy {
  #server: Server | null = null
  #port = 0
  #target = 0
  readonly #links = new Set<Link>()

  get port(): number {
    return this.#port
  }

  async up(target: number): Promise<void> {
    this.#target = target
    const server = createServer((near) => this.#link(near))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
  }

  down(): void {
    this.#server?.close()
    this.#server = null
    for (const { near, far } of this.#links) {
      near.destroy()
      far.destroy()
    }
  }

  /** Half-opens the link of one listener: both ends believe in it, and nothing comes through. */
  deafenListener(random: () => number): boolean {
    const links = [...this.#links].filter(({ listens }) => listens)
    const link = links[Math.floor(random() * links.length)]
    if (!link) return false
    link.near.unpipe(link.far)
    link.far.unpipe(link.near)
    link.near.resume()
    link.far.resume()
    return true
  }

  #link(near: Socket): void {
    const far = connect(this.#target, '127.0.0.1')
    const link: Link = { near, far, listens: false }
    near.on('data', (data: Buffer) => {
      link.listens ||= data.includes('LISTEN ')
    })
    this.#links.add(link)
    near.setNoDelay(true)
    far.setNoDelay(true)
    near.pipe(far)
    far.pipe(near)
    const end = () => {
      this.#links.delete(link)
      near.destroy()
      far.destroy()
    }
    for (const socket of [near, far]) {
      socket.on('error', end)
      socket.on('close', end)
    }
  }
}
