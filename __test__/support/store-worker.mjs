// A worker whose environment lives in stores, or on a Docker client, of the worker's own, for the tests that end workers in the middle of calls.
import { parentPort, workerData } from 'node:worker_threads'
import { createMemoryDockerClient } from '../../index.js'
import { PlainClient } from './plain-client.mjs'
import { Leases, Snapshots, environment, piecesOf } from './stores.mjs'

const { what } = workerData
const leaseStore = new Leases()
const snapshotStore = new Snapshots()
const owner = environment({ leaseStore, snapshotStore, ownerId: 'o', leaseMs: 300 })
const ignore = () => undefined
const never = () => new Promise(ignore)
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows, not of ports
const ready = () => parentPort.postMessage(what)

if (what === 'load') {
  leaseStore.overrides.load = () => (ready(), never())
  owner.acquire({ runId: 'r' }).catch(ignore)
} else if (what === 'beat') {
  // Heartbeats come every 100 ms, with nobody waiting for them in JavaScript; beside them calls come as fast as they can.
  const session = await owner.acquire({ runId: 'r' })
  ready()
  for (;;) await session.list()
} else if (what === 'save') {
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('big', new Uint8Array(1_000_000))
  snapshotStore.overrides.save = async (_key, _meta, tar) => {
    await tar.next()
    ready()
    await never()
  }
  session.release({ status: 'suspended' }).catch(ignore)
} else if (what === 'exec') {
  const client = new PlainClient(createMemoryDockerClient())
  const session = await environment({ client, leaseStore, ownerId: 'o', leaseMs: 300 }).acquire({ runId: 'r' })
  client.overrides.exec = () => (ready(), never())
  session.exec({ command: 'true' }).catch(ignore)
} else {
  const session = await owner.acquire({ runId: 'r' })
  await session.release({ status: 'suspended' })
  const [lease] = leaseStore.all()
  const { meta } = await snapshotStore.load(lease.key)
  async function* endless() {
    yield new Uint8Array(512)
    ready()
    yield* piecesOf([never()])
  }
  snapshotStore.overrides.load = () => ({ meta, tar: endless() })
  // Another engine, which has no container of this run.
  environment({ leaseStore, snapshotStore, ownerId: 'o', leaseMs: 300 }).acquire({ runId: 'r' }).catch(ignore)
}
// Keeps the worker alive until it is ended.
setInterval(ignore, 1_000)
