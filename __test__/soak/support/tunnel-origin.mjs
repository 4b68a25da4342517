// A server at the end of tunnels. Prints its port, and serves until its input ends.
import { once } from 'node:events'
import { createServer } from 'node:net'

const PIECE = Buffer.alloc(256 * 1024, 'x')

/** Reads `up N` and N bytes, then says so; or reads `down N` and writes N bytes. */
async function exchange(socket) {
  socket.on('error', () => undefined)
  let [order, count, wanted] = [undefined, 0, 0]
  for await (const data of socket.iterator({ destroyOnReturn: false })) {
    count += data.length
    if (!order) {
      const line = data.subarray(0, data.indexOf(10)).toString()
      order = line.split(' ')[0]
      wanted = Number(line.split(' ')[1])
      count -= line.length + 1
      if (order === 'down') break
    }
    if (count === wanted) return socket.end(`${count}\n`)
  }
  for (let left = wanted; left > 0 && !socket.destroyed; left -= PIECE.length) {
    if (!socket.write(PIECE.subarray(0, Math.min(PIECE.length, left)))) await once(socket, 'drain')
  }
  socket.end()
}

const server = createServer({ allowHalfOpen: true }, socket => void exchange(socket)).listen(0, '127.0.0.1')
await once(server, 'listening')
console.log(server.address().port)
process.stdin.resume().on('end', () => process.exit(0))
