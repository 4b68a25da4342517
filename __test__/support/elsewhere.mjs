// The world outside of `own-network.mjs`, in a network namespace of its own: has addresses that no sandbox may reach, answers
// whatever comes, and prints a line for it. It gets its link to that host from there, and begins with a line of input.
import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

/** Of the Internet, of a metadata service, and of a network nearby. */
export const ELSEWHERE = ['1.1.1.1', '169.254.169.254', '10.9.8.7', '2606:4700:4700::1111', 'fd00:ec2::254']
export const [DNS, HTTPS] = [53, 443]
/** Where the host itself knocks, to know that all that came before was told. */
export const KNOCK = 9
/** Both ends of the link between the two; the kernel names the other one. */
export const LINK = {
  host: { name: 'out0', address: '198.18.0.1' },
  world: { name: 'veth0', address: '198.18.0.2' },
}

export const ip = (...args) => execFileSync('busybox', ['ip', ...args], { stdio: 'pipe' })
export const own = (address, name) => ip('addr', 'add', `${address}/${address.includes(':') ? 128 : 32}`, 'dev', name)

/** Gives an end of the link its address and brings it up. */
export function join({ name, address }) {
  ip('addr', 'add', `${address}/30`, 'dev', name)
  for (const link of ['lo', name]) ip('link', 'set', link, 'up')
}

async function answer(address, ports) {
  const tell = (kind, port) => console.log(`${kind} ${address} ${port}`)
  for (const port of ports) {
    const server = createServer(socket => {
      tell('tcp', port)
      socket.on('error', () => {}).end('OUT\n')
    })
    await once(server.listen(port, address), 'listening')
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4').bind(port, address)
    socket.on('message', () => tell('udp', port))
    await once(socket, 'listening')
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await once(process.stdin, 'data')
  join(LINK.world)
  ip('route', 'add', 'default', 'via', LINK.host.address)
  for (const address of ELSEWHERE) {
    own(address, 'lo')
    await answer(address, [DNS, HTTPS])
  }
  await answer(LINK.world.address, [KNOCK])
  console.log('ready')
  process.stdin.resume().on('end', () => process.exit(0))
}
