// Holders that were stopped in the middle of something, and stores that do something late: what comes when another has the run,
// or another run its name, is neither seen nor undoes anything.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryDockerClient } from '../index.js'
import { PlainClient } from './support/plain-client.mjs'
import { Leases, Snapshots, environment, eventually, failureOf } from './support/stores.mjs'

function resolvers() {
  const made = {}
  made.promise = new Promise(resolve => (made.resolve = resolve))
  return made
}

test('a holder that was stopped in the middle of its last release spares the run that has its name by then', async () => {
  const [leaseStore, snapshotStore, client] = [new Leases(), new Snapshots(), createMemoryDockerClient()]
  const make = () => environment({ client, leaseStore, snapshotStore, ownerId: 'o' })
  const slow = new PlainClient(client)
  const stopped = await environment({ client: slow, leaseStore, snapshotStore, ownerId: 'o' }).acquire({ runId: 'r' })
  const [reached, goesOn] = [resolvers(), resolvers()]
  slow.overrides.removeContainer = async id => {
    reached.resolve()
    await goesOn.promise
    return client.removeContainer(id)
  }
  const releasing = stopped.release({ status: 'completed' })
  await reached.promise
  // As if it had been silent for long.
  const [ending] = leaseStore.all()
  leaseStore.put({ ...ending, holder: { ...ending.holder, heartbeatAt: 0 } })
  const session = await make().acquire({ runId: 'r' })
  await session.writeFile('f', 'kept')
  await session.release({ status: 'suspended' })
  const [waiting] = leaseStore.all()
  const [from, saved] = [leaseStore.calls.length, snapshotStore.bytes(waiting.key)]

  goesOn.resolve()
  await releasing
  assert.deepEqual([leaseStore.all(), snapshotStore.bytes(waiting.key)], [[waiting], saved])
  // Had it written with the fence of the run that follows, the store could not have told them apart.
  const writes = leaseStore.calls.slice(from).filter(([method]) => method !== 'load')
  for (const [, , expected] of writes) assert.notEqual(expected, waiting.fence)
  assert.notEqual(ending.fence, waiting.fence)

  for (const { Id } of await client.listContainers('zhivex.sandbox=1')) await client.removeContainer(Id)
  const again = await make().acquire({ runId: 'r' })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await again.release({ status: 'completed' })
})

test('a look at the lease that took as long as a take-over is of a time before it, and is asked for again', async () => {
  const [leaseStore, client] = [new Leases(), new PlainClient(createMemoryDockerClient())]
  const session = await environment({ client, leaseStore, ownerId: 'o' }).acquire({ runId: 'r' })
  leaseStore.overrides.load = async key => {
    delete leaseStore.overrides.load
    const before = await leaseStore.load(key)
    await new Promise(resolve => setTimeout(resolve, 5_500))
    leaseStore.put({ ...before, fence: before.fence + 1 })
    return before
  }
  const calls = client.calls.length
  assert.equal((await failureOf(session.writeFile('f', 'stale'))).name, 'ConflictError')
  assert.deepEqual(client.calls.slice(calls), [])
})

test('a first save that is done when nobody waits for it any more leaves no lease', async () => {
  const [leaseStore, client] = [new Leases(), createMemoryDockerClient()]
  const make = () => environment({ client, leaseStore, ownerId: 'o' })
  const save = leaseStore.save.bind(leaseStore)
  leaseStore.save = async (...args) => {
    delete leaseStore.save
    await new Promise(resolve => setTimeout(resolve, 8_000))
    return save(...args)
  }
  assert.equal((await failureOf(make().acquire({ runId: 'r' }))).code, 'TIMEOUT')
  await eventually('it was saved and removed again', () => leaseStore.calls.at(-1)[0] === 'remove')
  assert.deepEqual(leaseStore.all(), [])
  await (await make().acquire({ runId: 'r' })).release({ status: 'completed' })
})
