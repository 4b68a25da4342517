// A gibibyte each way through a tunnel of the network allowlist, carried by the container's control stream: memory and
// descriptors of both ends stay as they were.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { sh } from '../support/live.mjs'
import { reaching } from '../support/network.mjs'
import { flat } from './support/figures.mjs'
import { streamBytes, warmUpBytes } from './support/lengths.mjs'
import { MIB, room } from './support/room.mjs'

const { client, containers, environment } = room()
const ORIGIN = fileURLToPath(new URL('support/tunnel-origin.mjs', import.meta.url))
/** What the proxy says before a tunnel begins. */
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'

async function inTunnel(use) {
  // In a process of its own: what it reads and writes is none of this one's memory.
  const origin = spawn(process.execPath, [ORIGIN], { stdio: ['pipe', 'pipe', 'inherit'] })
  const port = Number((await once(origin.stdout, 'data'))[0])
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
    origin.stdin.end()
  }
}

const names = `${streamBytes / MIB} MiB`

/** `pass` moves so many bytes through a tunnel. */
function flatThrough(what, passIn) {
  test(`${names} ${what} through a tunnel`, t =>
    inTunnel(async (through, inside) => {
      const pass = passIn(through)
      const seconds = await flat(
        t,
        `${names} ${what}`,
        inside,
        () => pass(warmUpBytes),
        () => pass(streamBytes),
      )
      t.diagnostic(`  ${(streamBytes / MIB / seconds).toFixed(0)} MiB/s`)
    }))
}

flatThrough('out', through => async length => {
  const said = await through(`up ${length}`, `head -c ${length} /dev/zero`, 'cat')
  assert.equal(said, `${ESTABLISHED}${length}\n`)
})

flatThrough('in', through => async length => {
  assert.equal(await through(`down ${length}`, ':', 'wc -c'), `${ESTABLISHED.length + length}\n`)
})
