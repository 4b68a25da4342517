// How long a run takes to begin, to be put away, and to come back.

import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFileLeaseStore, createFileSnapshotStore, createNodeDockerClient } from '../index.js'
import { timed } from './report.mjs'
import { FILL, lose } from './work.mjs'

const POOL = 10
// Whose containers the snapshots' rounds remove.
const OWNER = `bench-${randomUUID()}`

const acquire =
  (owner, runId = randomUUID()) =>
  async () => {
    const run = await owner.acquire({ runId })
    return () => run.release({ status: 'completed' })
  }

/** Beginning a run in a container that is made for it, and in one that waits. */
export async function acquires({ make, peer, rounds }) {
  const [resident, exec] = [make({ transport: 'resident' }), make({ transport: 'exec' })]
  const cold = { resident: [], exec: [], peer: [] }
  for (let round = 0; round < rounds; round++) {
    cold.resident.push(await timed(acquire(resident)))
    cold.exec.push(await timed(acquire(exec)))
    cold.peer.push(await timed(peer.createAndStart))
  }
  await resident.close()
  await exec.close()
  const warm = await fromThePool(make, rounds * POOL)
  return [
    { name: 'acquire, cold (peer: create + start)', ...cold },
    { name: 'acquire, from the pool', resident: warm, peer: cold.peer },
  ]
}

async function fromThePool(make, rounds) {
  const pool = { waiting: 0 }
  const onEvent = ({ type }) => {
    if (type === 'pooled') pool.waiting++
  }
  const owner = make({ transport: 'resident', pool: { size: POOL }, onEvent })
  // An event keeps no process alive; a timer does.
  const full = async () => {
    while (pool.waiting < POOL) await new Promise(resolve => setTimeout(resolve, 5))
  }
  const first = await owner.acquire({ runId: randomUUID() })
  const times = []
  while (times.length < rounds) {
    // The pool is quiet while it is measured: it begins to be filled up again with the first one that is taken.
    await full()
    times.push(await timed(acquire(owner)))
    pool.waiting--
  }
  await first.release({ status: 'completed' })
  await owner.close()
  return times
}

/** A workspace put away and brought back in a new container. */
export async function snapshots({ make, peer, rounds, socketPath }) {
  const directory = mkdtempSync(join(tmpdir(), 'sandbox-bench-'))
  const client = createNodeDockerClient({ socketPath })
  const stores = {
    leaseStore: createFileLeaseStore({ directory }),
    snapshotStore: createFileSnapshotStore({ directory }),
  }
  const owners = ['resident', 'exec'].map(transport => make({ transport, ownerId: OWNER, ...stores }))
  const times = { resident: [], exec: [], peer: [] }
  try {
    for (let round = 0; round < rounds; round++) {
      for (const [i, transport] of ['resident', 'exec'].entries()) {
        times[transport].push(await roundTrip(owners[i], client))
      }
      times.peer.push(await peer.roundTrip(join(directory, 'peer.tar'), FILL))
    }
  } finally {
    for (const owner of owners) await owner.close()
    rmSync(directory, { recursive: true })
  }
  return { name: 'snapshot + restore of 64 MiB in 1,000 files', ...times }
}

async function roundTrip(owner, client) {
  const runId = randomUUID()
  const first = await owner.acquire({ runId })
  await first.exec({ command: 'sh', args: ['-c', FILL], timeoutMs: 60_000 })
  const put = await timed(() => first.release({ status: 'waiting_approval' }).then(() => undefined))
  await lose(client, OWNER)
  return put + (await timed(acquire(owner, runId)))
}
