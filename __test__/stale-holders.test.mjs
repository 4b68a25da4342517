// Holders that were stopped while they acquired a run, and go on when another one has it: the container of that one stays.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryDockerClient } from '../index.js'
import { PlainClient } from './support/plain-client.mjs'
import { Leases, Snapshots, environment, failureOf } from './support/stores.mjs'

/** A promise that is reached, and one that lets whoever reached it go on. */
function stop() {
  const made = {}
  made.reached = new Promise(resolve => (made.reach = resolve))
  made.until = new Promise(resolve => (made.goOn = resolve))
  return made
}

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

/** The holder that was stopped is told so, and the one that has the run works on. */
async function spared(world, stopped, session) {
  const { name, message } = await failureOf(stopped)
  assert.equal(name, 'ConflictError', message)
  assert.equal((await session.readFile('g', { encoding: 'utf8' })).contents, 'next')
  assert.deepEqual(
    (await world.containers()).map(({ Id }) => Id),
    world.leaseStore.all().map(({ containerId }) => containerId),
  )
  await session.release({ status: 'completed' })
  assert.deepEqual([await world.containers(), world.leaseStore.all(), world.snapshotStore.size], [[], [], 0])
}

for (const method of ['removeContainer', 'createContainer']) {
  test(`stopped in ${method} of a restore`, async () => {
    const world = await waiting()
    const { client, slow, make } = world
    for (const { Id } of await world.containers()) await client.removeContainer(Id)
    const { reached, reach, until, goOn } = stop()
    slow.overrides[method] = async argument => {
      delete slow.overrides[method]
      reach()
      await until
      return client[method](argument)
    }
    const stopped = make({ client: slow }).acquire({ runId: 'r' })
    stopped.catch(() => undefined)
    await reached
    const session = await follow(world)
    assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'kept')
    await session.writeFile('g', 'next')
    goOn()
    await spared(world, stopped, session)
  })
}

test('stopped in the inspection of what has the name of a container that it restores', async () => {
  const world = await waiting()
  const { client, slow, make } = world
  for (const { Id } of await world.containers()) await client.removeContainer(Id)
  const { reached, reach, until, goOn } = stop()
  slow.overrides.inspectContainer = async id => {
    // By its id at first.
    if (/^[0-9a-f]+$/.test(id)) return client.inspectContainer(id)
    reach()
    await until
    return client.inspectContainer(id)
  }
  const stopped = make({ client: slow }).acquire({ runId: 'r' })
  stopped.catch(() => undefined)
  await reached
  const session = await follow(world)
  await session.writeFile('g', 'next')
  goOn()
  await spared(world, stopped, session)
})

test('stopped before it removes the container that it found lost, and that answers the next one', async () => {
  const world = await waiting()
  const { client, slow, make } = world
  slow.overrides.inspectContainer = async id => {
    delete slow.overrides.inspectContainer
    const found = await client.inspectContainer(id)
    return { ...found, State: { ...found.State, Running: false } }
  }
  const { reached, reach, until, goOn } = stop()
  slow.overrides.removeContainer = async id => {
    delete slow.overrides.removeContainer
    reach()
    await until
    return client.removeContainer(id)
  }
  const stopped = make({ client: slow }).acquire({ runId: 'r' })
  stopped.catch(() => undefined)
  await reached
  const session = await follow(world)
  assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await session.writeFile('g', 'next')
  goOn()
  await spared(world, stopped, session)
})

/** The store of a holder that is stopped in a save which was done, and whose answer is an error in the end. */
function stoppedInSave(leaseStore, which) {
  const { reached, reach, until, goOn } = stop()
  let saves = 0
  const store = {
    load: key => leaseStore.load(key),
    remove: (key, fence) => leaseStore.remove(key, fence),
    list: owner => leaseStore.list(owner),
    async save(lease, expected) {
      const saved = await leaseStore.save(lease, expected)
      if (++saves !== which) return saved
      reach()
      await until
      throw new Error('the connection was lost')
    },
  }
  return { store, reached, goOn }
}

for (const [what, prepare, which] of [
  ['first', async () => newWorld(), 1],
  [
    'last, of a restore,',
    async () => {
      const world = await waiting()
      for (const { Id } of await world.containers()) await world.client.removeContainer(Id)
      return world
    },
    2,
  ],
]) {
  test(`stopped in its ${what} save, whose answer is lost`, async () => {
    const world = await prepare()
    const { store, reached, goOn } = stoppedInSave(world.leaseStore, which)
    const stopped = world.make({ leaseStore: store }).acquire({ runId: 'r' })
    stopped.catch(() => undefined)
    await reached
    const session = await follow(world)
    await session.writeFile('g', 'next')
    goOn()
    const { code, cause } = await failureOf(stopped)
    assert.deepEqual([code, cause?.message], ['CONFIG_INVALID', 'the connection was lost'])
    assert.equal((await session.readFile('g', { encoding: 'utf8' })).contents, 'next')
    assert.deepEqual(
      (await world.containers()).map(({ Id }) => Id),
      world.leaseStore.all().map(({ containerId }) => containerId),
    )
    await session.release({ status: 'completed' })
    assert.deepEqual([await world.containers(), world.leaseStore.all()], [[], []])
  })
}
