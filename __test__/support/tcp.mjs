// TCP ports in front of an engine.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

export { freePort } from '../../scripts/lib/ports.mjs'

/**
 * A port that hands everything on to `target` (what `net.connect` takes), the end of each direction too. `watch(piece, cut)` sees
 * what comes back, and may end both directions, as a network does that fails. Resolves to `{ port, close }`.
 */
export async function forward(target, watch = () => undefined) {
  const sockets = new Set()
  const server = createServer({ allowHalfOpen: true }, near => {
    const far = connect({ ...target, allowHalfOpen: true })
    const cut = () => [near, far].forEach(socket => socket.destroy())
    for (const socket of [near, far]) sockets.add(socket.on('error', cut).on('close', () => sockets.delete(socket)))
    far.on('data', piece => watch(piece, cut))
    near.pipe(far)
    far.pipe(near)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = async () => {
    server.close()
    for (const socket of sockets) socket.destroy()
    if (server.listening) await once(server, 'close')
  }
  return { port: server.address().port, close }
}
