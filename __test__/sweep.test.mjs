// What a sweep, an acquire and a release do where a store or an engine fails half way, and what none of them touches.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createFileLeaseStore, createMemoryDockerClient } from '../index.js'
import { Leases, Snapshots, environment, failureOf, temporaryDirectory } from './support/stores.mjs'
import { stopPoint } from './support/wait.mjs'

/** The double, with other answers of some methods. */
const altered = (client, changes) => Object.assign(Object.create(client), { kind: client.kind }, changes)
const old = found => found.map(one => ({ ...one, Created: one.Created - 300 }))

function newWorld(options = {}) {
  const [leaseStore, snapshotStore] = [new Leases(), new Snapshots()]
  const client = options.client ?? createMemoryDockerClient()
  const make = more => environment({ client, leaseStore, snapshotStore, ownerId: 'o', ...options, ...more })
  return { leaseStore, snapshotStore, client, make, containers: () => client.listContainers('zhivex.sandbox=1') }
}

/** Runs that wait, whose leases have ended. */
async function expired(world, ...runIds) {
  for (const runId of runIds) await (await world.make().acquire({ runId })).release({ status: 'suspended' })
  for (const lease of world.leaseStore.all()) world.leaseStore.put({ ...lease, expiresAt: 1 })
}

for (const step of ['startContainer', 'putArchive', 'save']) {
  test(`what this environment is making is not swept, however long ${step} takes`, async () => {
    const client = createMemoryDockerClient()
    const { reached, stop, goOn } = stopPoint()
    const slowly =
      act =>
      async (...args) => {
        await stop()
        return act(...args)
      }
    const world = newWorld({
      workspace: { id: 'w', files: [{ path: 'seed', contents: 's' }] },
      client: altered(client, {
        listContainers: async label => old(await client.listContainers(label)),
        [step]: slowly((...args) => client[step](...args)),
      }),
    })
    const { leaseStore } = world
    if (step === 'save') {
      leaseStore.overrides.save = slowly((...args) => {
        delete leaseStore.overrides.save
        return leaseStore.save(...args)
      })
    }
    const owner = world.make()
    const acquiring = owner.acquire({ runId: 'r' })
    await Promise.race([reached, acquiring.then(() => assert.fail(`${step} was not called`))])
    assert.deepEqual((await owner.sweep()).removedContainers, [])
    goOn()
    const session = await acquiring
    assert.equal((await session.readFile('seed', { encoding: 'utf8' })).contents, 's')
    await session.release({ status: 'completed' })
    // Once it is given up, what it made is anybody's.
    await owner.acquire({ runId: 'r' })
    const [lease] = leaseStore.all()
    await leaseStore.remove(lease.key, lease.fence)
    assert.deepEqual((await owner.sweep()).removedContainers, [lease.containerName])
  })
}

test('a sweep that is aborted while it ends a run is over at once, and the run is ended all the same', async () => {
  const { reached, stop, goOn } = stopPoint()
  const world = newWorld()
  await expired(world, 'a')
  const removeContainer = id => stop().then(() => world.client.removeContainer(id))
  const owner = world.make({ client: altered(world.client, { removeContainer }) })
  const abort = new AbortController()
  const swept = owner.sweep({ signal: abort.signal })
  await reached
  abort.abort()
  assert.equal((await failureOf(swept)).code, 'CANCELLED')
  goOn()
  // Which waits for what is under way.
  await owner.close()
  assert.deepEqual([world.leaseStore.all(), await world.containers()], [[], []])
})

test('a sweep whose engine or store fails half way still tells what it did', async () => {
  const fail = [{ method: 'listContainers', nth: 1 }]
  const world = newWorld({ client: createMemoryDockerClient({ fail }) })
  await expired(world, 'a', 'b')
  const first = await world.make().sweep()
  assert.deepEqual(first.expiredRuns.toSorted(), ['a', 'b'])
  assert.match(first.failures.join(), /^containers: .*fail call 1 of listContainers/)

  // And one container of which it cannot tell whose it is does not keep it from the others.
  const client = altered(world.client, { listContainers: async label => old(await world.client.listContainers(label)) })
  const owner = world.make({ client })
  await owner.acquire({ runId: 'c' })
  await owner.acquire({ runId: 'd' })
  const leases = world.leaseStore.all()
  for (const { key, fence } of leases) await world.leaseStore.remove(key, fence)
  world.leaseStore.overrides.load = async key => {
    if (key === leases[0].key) throw new Error('broken')
    return undefined
  }
  const second = await owner.sweep()
  assert.deepEqual(second.removedContainers, [leases[1].containerName])
  assert.equal(second.failures.length, 1)
  assert.ok(
    second.failures[0].startsWith(`container ${leases[0].containerName}: leaseStore.load()`),
    second.failures[0],
  )
})

test('half-written lease files of dead processes are reported with those of snapshots', async () => {
  const directory = join(temporaryDirectory(), 'leases')
  mkdirSync(directory)
  const left = `${'ab'.repeat(32)}.lease.tmp`
  writeFileSync(join(directory, left), '{')
  const owner = environment({ leaseStore: createFileLeaseStore({ directory }), ownerId: 'o' })
  assert.deepEqual((await owner.sweep()).removedFiles, [left])
  assert.deepEqual(readdirSync(directory).includes(left), false)
})

/** A world in which a run was released with this status, and the first look at its lease failed. */
async function releasedBlindly(status) {
  const world = newWorld()
  const session = await world.make().acquire({ runId: 'r' })
  await session.writeFile('f', 'x')
  world.leaseStore.overrides.load = async () => {
    delete world.leaseStore.overrides.load
    throw new Error('broken')
  }
  await session.release({ status })
  return world
}

test('a last release whose first look at the lease fails removes all the same', async () => {
  const world = await releasedBlindly('completed')
  assert.deepEqual([await world.containers(), world.leaseStore.all(), world.snapshotStore.size], [[], [], 0])
})

test('a keeping release whose first look at the lease fails keeps all the same', async () => {
  const world = await releasedBlindly('suspended')
  const [{ status, holder, snapshotState }] = world.leaseStore.all()
  assert.deepEqual([status, holder, snapshotState, world.snapshotStore.size], ['suspended', null, 'current', 1])
})

for (const [what, change] of [
  ['fingerprint', { limits: { pids: 77 } }],
  ['workspace', { workspace: { id: 'another' } }],
  ['environment', { id: 'another' }],
]) {
  test(`what is left of an ended run of another ${what} is not removed`, async () => {
    const fail = [{ method: 'removeContainer', nth: 1 }]
    const world = newWorld({ client: createMemoryDockerClient({ fail }) })
    const session = await world.make().acquire({ runId: 'r' })
    await session.release({ status: 'completed' })
    const [lease] = world.leaseStore.all()
    assert.deepEqual([lease.status, lease.holder], ['completed', null])
    const error = await failureOf(world.make(change).acquire({ runId: 'r' }))
    assert.equal(error.name, 'ConflictError')
    assert.match(error.message, /^Run r was started with another .* It has ended; /)
    assert.deepEqual([(await world.containers()).length, world.leaseStore.all()], [1, [lease]])
    // Of the same one it is.
    await (await world.make().acquire({ runId: 'r' })).release({ status: 'completed' })
    assert.deepEqual([await world.containers(), world.leaseStore.all()], [[], []])
  })
}
