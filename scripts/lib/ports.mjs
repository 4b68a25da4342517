// TCP ports of this machine.

import { connect, createServer } from 'node:net'

/** A port on loopback that nobody has. */
export async function freePort() {
  const server = createServer()
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise(resolve => server.close(resolve))
  return port
}

/** Whether somebody accepts connections at a port on loopback. */
export function listens(port) {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port })
    const settle = answer => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('connect', () => settle(true)).on('error', () => settle(false))
  })
}
