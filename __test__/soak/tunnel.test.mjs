// A gibibyte each way through a tunnel of the network allowlist, carried by the container's control stream: memory and
// descriptors of both ends stay as they were.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { sh } from '../support/live.mjs'
import { reaching } from '../support/network.mjs'
import { flat } from './support/figures.mjs'
import { streamBytes, warmUpBytes } from './support/lengths.mjs'
import { MIB, room } from './support/room.mjs'

const { client, containers, environment } = room()
const PIECE = Buffer.alloc(256 * 1024, 'x')
/** What the proxy says before a tunnel begins. */
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

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

async function inTunnel(use) {
  const server = createServer({ allowHalfOpen: true }, socket => void exchange(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  const quotas = Object.fromEntries(
    ['maxBytesUp', 'maxBytesDown', 'maxNetworkBytes'].map(name => [name, 8 * streamBytes]),
  )
  const { options } = reaching([port], { quotas })
  const owner = environment({ ...options, limits: { commandTimeoutMs: 15 * 60_000 } })
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    const [{ Id }] = await containers()
    const head = `CONNECT good.test:${port} HTTP/1.1\\r\\nHost: good.test:${port}\\r\\n\\r\\n`
    const through = (order, sent, then) =>
      sh(session, `{ printf '${head}${order}\\n'; ${sent}; } | nc 127.0.0.1 3128 | ${then}`)
    await use(through, (await client.inspectContainer(Id)).State.Pid)
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
    server.close()
  }
}

const names = `${streamBytes / MIB} MiB`

test(`${names} out through a tunnel`, t =>
  inTunnel(async (through, inside) => {
    const up = async length => {
      const said = await through(`up ${length}`, `head -c ${length} /dev/zero`, 'cat')
      assert.equal(said, `${ESTABLISHED}${length}\n`)
    }
    const seconds = await flat(
      t,
      `${names} out`,
      inside,
      () => up(warmUpBytes),
      () => up(streamBytes),
    )
    t.diagnostic(`  ${(streamBytes / MIB / seconds).toFixed(0)} MiB/s`)
  }))

test(`${names} in through a tunnel`, t =>
  inTunnel(async (through, inside) => {
    const down = async length => {
      assert.equal(await through(`down ${length}`, ':', 'wc -c'), `${ESTABLISHED.length + length}\n`)
    }
    const seconds = await flat(
      t,
      `${names} in`,
      inside,
      () => down(warmUpBytes),
      () => down(streamBytes),
    )
    t.diagnostic(`  ${(streamBytes / MIB / seconds).toFixed(0)} MiB/s`)
  }))
