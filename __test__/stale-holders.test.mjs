// Holders that were stopped while they acquired a run, and go on when another one has it: the container of that one stays.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryDockerClient } from '../index.js'
import { PlainClient } from './support/plain-client.mjs'
import { Leases, Snapshots, environment, failureOf } from './support/stores.mjs'
import { stopPoint } from './support/wait.mjs'

/** An engine and stores, a client of the holder that is stopped, and environments over them. */
function newWorld() {
  const [leaseStore, snapshotStore, client] = [new Leases(), new Snapshots(), createMemoryDockerClient()]
  const slow = new PlainClient(client)
  const make = options => environment({ client, leaseStore, snapshotStore, ownerId: 'o', ...options })
  return { leaseStore, snapshotStore, client, slow, make, containers: () => client.listContainers('zhivex.sandbox=1') }
}

/** A run that waits, with a file in it. */
async function waiting() {
  const world = newWorld()
  const session = await world.make().acquire({ runId: 'r' })
  await session.writeFile('f', 'kept')
  await session.release({ status: 'suspended' })
  return world
}

/** A session of whoever takes the run over from a holder that seems to have been silent for long. */
async function follow({ leaseStore, make }) {
  const [lease] = leaseStore.all()
  leaseStore.put({ ...lease, holder: { ...lease.holder, heartbeatAt: 0 } })
  return make().acquire({ runId: 'r' })
}

/** The containers of the world are those that its leases speak of, and the one that has the run works on. */
async function worksOn(world, session) {
  assert.equal((await session.readFile('g', { encoding: 'utf8' })).contents, 'next')
  assert.deepEqual(
    (await world.containers()).map(({ Id }) => Id),
    world.leaseStore.all().map(({ containerId }) => containerId),
  )
  await session.release({ status: 'completed' })
  assert.deepEqual([await world.containers(), world.leaseStore.all()], [[], []])
}

/** The run is acquired by a holder of these options, which is stopped at a point, followed, and goes on; how it fails. */
async function overtaken(world, options, { reached, goOn }, has = []) {
  const stopped = world.make(options).acquire({ runId: 'r' })
  stopped.catch(() => undefined)
  await reached
  const session = await follow(world)
  for (const name of has) assert.equal((await session.readFile(name, { encoding: 'utf8' })).contents, 'kept')
  await session.writeFile('g', 'next')
  goOn()
  const error = await failureOf(stopped)
  await worksOn(world, session)
  return error
}

/** The same for a holder that is stopped in a call to the engine: it is told that it is not the holder any more. */
async function spared(world, point, has) {
  const { name, message } = await overtaken(world, { client: world.slow }, point, has)
  assert.equal(name, 'ConflictError', message)
  assert.equal(world.snapshotStore.size, 0)
}

async function lose({ client, containers }) {
  for (const { Id } of await containers()) await client.removeContainer(Id)
}

for (const method of ['removeContainer', 'createContainer']) {
  test(`stopped in ${method} of a restore`, async () => {
    const world = await waiting()
    const { client, slow } = world
    await lose(world)
    const point = stopPoint()
    slow.overrides[method] = async argument => {
      delete slow.overrides[method]
      await point.stop()
      return client[method](argument)
    }
    await spared(world, point, ['f'])
  })
}

test('stopped in the inspection of what has the name of a container that it restores', async () => {
  const world = await waiting()
  const { client, slow } = world
  await lose(world)
  const point = stopPoint()
  slow.overrides.inspectContainer = async id => {
    // By its id at first.
    if (!/^[0-9a-f]+$/.test(id)) await point.stop()
    return client.inspectContainer(id)
  }
  await spared(world, point)
})

test('stopped before it removes the container that it found lost, and that answers the next one', async () => {
  const world = await waiting()
  const { client, slow } = world
  slow.overrides.inspectContainer = async id => {
    delete slow.overrides.inspectContainer
    const found = await client.inspectContainer(id)
    return { ...found, State: { ...found.State, Running: false } }
  }
  const point = stopPoint()
  slow.overrides.removeContainer = async id => {
    delete slow.overrides.removeContainer
    await point.stop()
    return client.removeContainer(id)
  }
  await spared(world, point, ['f'])
})

/** The store of a holder that is stopped in a save which was done, and whose answer is an error in the end. */
function stoppedInSave(leaseStore, which) {
  const point = stopPoint()
  let saves = 0
  const store = {
    load: key => leaseStore.load(key),
    remove: (key, fence) => leaseStore.remove(key, fence),
    list: owner => leaseStore.list(owner),
    async save(lease, expected) {
      const saved = await leaseStore.save(lease, expected)
      if (++saves !== which) return saved
      await point.stop()
      throw new Error('the connection was lost')
    },
  }
  return { store, point }
}

for (const [what, prepare, which] of [
  ['first', async () => newWorld(), 1],
  [
    'last, of a restore,',
    async () => {
      const world = await waiting()
      await lose(world)
      return world
    },
    2,
  ],
]) {
  test(`stopped in its ${what} save, whose answer is lost`, async () => {
    const world = await prepare()
    const { store, point } = stoppedInSave(world.leaseStore, which)
    const { code, cause } = await overtaken(world, { leaseStore: store }, point)
    assert.deepEqual([code, cause?.message], ['CONFIG_INVALID', 'the connection was lost'])
  })
}

/** The lease store as one holder has it, which saves by `save(lease, fence)`. */
function savingBy(leaseStore, save) {
  return {
    load: key => leaseStore.load(key),
    remove: (key, fence) => leaseStore.remove(key, fence),
    list: ownerId => leaseStore.list(ownerId),
    save,
  }
}

/** That of a holder for which `before` is waited for ahead of its first save, which comes after its look at the lease. */
function looksBefore(leaseStore, before) {
  let saved = false
  return savingBy(leaseStore, async (lease, fence) => {
    if (!saved) {
      saved = true
      await before()
    }
    return leaseStore.save(lease, fence)
  })
}

test('a run that is being ended is refused to one that looked at its lease before', async () => {
  const world = newWorld()
  const { reached, stop, goOn } = stopPoint()
  const { snapshotStore } = world
  snapshotStore.overrides.remove = async key => {
    delete snapshotStore.overrides.remove
    await stop()
    return snapshotStore.remove(key)
  }
  const owner = world.make()
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('f', 'kept')
  await session.snapshot()
  // Its run is handed back; then it ends, all the same.
  await owner.close()
  let ending
  const leaseStore = looksBefore(world.leaseStore, () => {
    ending = session.release({ status: 'completed' })
    return reached
  })
  const { name, message } = await failureOf(world.make({ leaseStore }).acquire({ runId: 'r' }))
  assert.equal(name, 'ConflictError', message)
  goOn()
  await ending
  assert.deepEqual([await world.containers(), world.leaseStore.all(), world.snapshotStore.size], [[], [], 0])
})

test('what a silent holder writes while it is followed is not taken for what the snapshot holds', async () => {
  const world = newWorld()
  let stopped = false
  const own = savingBy(world.leaseStore, (...args) => stopped || world.leaseStore.save(...args))
  const silent = await world.make({ leaseStore: own }).acquire({ runId: 'r' })
  await silent.writeFile('f', 'one')
  await silent.snapshot()
  stopped = true
  const [lease] = world.leaseStore.all()
  world.leaseStore.put({ ...lease, holder: { ...lease.holder, heartbeatAt: 1 } })
  const leaseStore = looksBefore(world.leaseStore, () => {
    stopped = false
    return silent.writeFile('f', 'two')
  })
  const next = world.make({ leaseStore })
  const session = await next.acquire({ runId: 'r' })
  assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'two')
  await next.close()
  await lose(world)
  const owner = world.make()
  assert.equal((await failureOf(owner.acquire({ runId: 'r' }))).code, 'SNAPSHOT_INVALID')
  const again = await owner.acquire({ runId: 'r' })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'one')
  await again.release({ status: 'completed' })
})

test('that work was lost is told, also where the answer of the store is lost that has it on record', async () => {
  const world = newWorld()
  const owner = world.make()
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('f', 'one')
  await session.snapshot()
  await session.writeFile('f', 'two')
  await lose(world)
  await owner.close()
  const { leaseStore } = world
  leaseStore.overrides.save = (lease, fence) => {
    delete leaseStore.overrides.save
    assert.ok(leaseStore.save(lease, fence))
    throw new Error('connection lost after COMMIT')
  }
  const next = world.make()
  assert.equal((await failureOf(next.acquire({ runId: 'r' }))).code, 'SNAPSHOT_INVALID')
  const again = await next.acquire({ runId: 'r' })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'one')
  await again.release({ status: 'completed' })
})
