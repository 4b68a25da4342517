// The engine is stopped in the middle of each operation, and started again. What was under way ends in a typed error, or
// well; then the run goes on with the workspace of its last finished snapshot, release or checkpoint, and says so where work
// was lost. The engine is one of this file's own.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { createDockerSandboxEnvironment, createNodeDockerClient } from '../../index.js'
import { startEngine } from '../../scripts/engine.mjs'
import { eventually, plainOptions } from '../support/live.mjs'
import { fileStores } from './support/hosts.mjs'
import { engineStops } from './support/lengths.mjs'
import { Tally, within } from './support/room.mjs'

/** An operation that does not end by then hangs. */
const END_MS = 90_000
/** `TIMEOUT` where the engine took longer than a store may: the store's call waits until the engine is there again. */
const TYPED =
  /^(SandboxError (CONTAINER_LOST|DOCKER_UNAVAILABLE|DOCKER_API|SNAPSHOT_INVALID|NOT_FOUND|TIMEOUT)|ConflictError)/
let engine

before(async () => {
  engine = await startEngine({ images: ['busybox'], runtimes: {} })
})
after(() => engine?.stop())

/** A gate that what passes waits at until it is opened. */
function gate() {
  let open
  const opened = new Promise(resolve => (open = resolve))
  const passing = { waits: false, shut: false, open }
  passing.pass = async () => {
    if (!passing.shut) return
    passing.waits = true
    await opened
  }
  return passing
}

/** Stores whose calls wait at a gate: `where` names a method; of `save` it is in the middle of the tar. */
function gated(stores, where, barrier) {
  const method =
    (store, name) =>
    async (...args) => {
      if (where === name) await barrier.pass()
      return store[name.split('.')[1]](...args)
    }
  const { leaseStore, snapshotStore } = stores
  const middle = async function* (tar) {
    for await (const piece of tar) {
      if (where === 'snapshotStore.save') await barrier.pass()
      yield piece
    }
  }
  return {
    leaseStore: {
      load: key => leaseStore.load(key),
      list: owner => leaseStore.list(owner),
      save: method(leaseStore, 'leaseStore.save'),
      remove: method(leaseStore, 'leaseStore.remove'),
    },
    snapshotStore: {
      load: method(snapshotStore, 'snapshotStore.load'),
      remove: method(snapshotStore, 'snapshotStore.remove'),
      save: (key, meta, tar) => snapshotStore.save(key, meta, middle(tar)),
    },
  }
}

async function held({ owner, runId }) {
  const session = await owner.acquire({ runId })
  await session.writeFile('a', '1')
  await session.snapshot()
  await session.writeFile('b', '2')
  return session
}

async function waits(world) {
  const session = await held(world)
  await session.release({ status: 'suspended' })
}

/** A run that waits, whose container is lost. */
async function waitsWithout(world) {
  await waits(world)
  const client = createNodeDockerClient({ socketPath: engine.socketPath })
  for (const { Id } of await client.listContainers(`zhivex.sandbox.owner=${world.ownerId}`))
    await client.removeContainer(Id)
}

const release = status => session => session.release({ status })
/** More all the time, but not so much that the workspace is full before the engine stops. */
async function* endless() {
  for (;;) {
    yield Buffer.alloc(1000)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** What files hold, in whatever workspace they are. */
const CONTENTS = { a: '1', b: '2' }

/**
 * What is prepared, what is under way, where it is held up, and what the workspace may be afterwards. What is not held up, or
 * `goesOn`, would not end by itself before the engine stops.
 */
const OPERATIONS = {
  exec: { before: held, act: session => session.exec({ command: 'sleep', args: ['60'] }), may: ['a'] },
  spawn: {
    before: held,
    act: async session => (await session.spawn({ command: 'sleep', args: ['60'] })).result,
    may: ['a'],
  },
  writeFile: {
    before: held,
    async act(session) {
      for (;;) await session.writeFile('c', '3')
    },
    may: ['a'],
  },
  writeFileStream: {
    only: 'resident',
    before: held,
    act: session => session.writeFileStream('c', endless()),
    may: ['a'],
  },
  readFile: {
    before: held,
    async act(session) {
      for (;;) await session.readFile('a')
    },
    may: ['a'],
  },
  snapshot: { before: held, act: session => session.snapshot(), at: 'snapshotStore.save', may: ['a', 'a,b'] },
  checkpoint: {
    options: { checkpointMs: 100 },
    before: async world => {
      const session = await held(world)
      const saved = async () => {
        const [lease] = await world.stores.leaseStore.list(world.ownerId)
        return lease.snapshotState === 'current'
      }
      await eventually('a checkpoint', saved, END_MS)
      return session
    },
    act: session => session.exec({ command: 'sh', args: ['-c', 'sleep 60'] }),
    may: ['a,b'],
  },
  'checkpoint, in the middle of it': {
    options: { checkpointMs: 100 },
    before: held,
    // While a command runs there is always another checkpoint.
    act: session => session.exec({ command: 'sleep', args: ['60'] }),
    at: 'snapshotStore.save',
    goesOn: true,
    may: ['a', 'a,b'],
  },
  'release, keeping': {
    before: held,
    act: release('suspended'),
    at: 'snapshotStore.save',
    may: ['a', 'a,b'],
    never: true,
  },
  'release, ending': { before: held, act: release('completed'), at: 'snapshotStore.remove', may: [''], never: true },
  'acquire, a new run': {
    before: async () => undefined,
    act: (_session, { owner, runId }) => owner.acquire({ runId }),
    at: 'leaseStore.save',
    may: [''],
    lost: 'CONTAINER_LOST',
  },
  'acquire, one that waits': {
    before: waits,
    act: (_session, { owner, runId }) => owner.acquire({ runId }),
    at: 'leaseStore.save',
    may: ['a,b'],
  },
  'acquire, a restore': {
    before: waitsWithout,
    act: (_session, { owner, runId }) => owner.acquire({ runId }),
    at: 'snapshotStore.load',
    may: ['a,b'],
  },
  sweep: {
    options: { leaseMs: 400 },
    before: async world => {
      const session = await held(world)
      await session.release({ status: 'suspended' })
      await new Promise(resolve => setTimeout(resolve, 500))
    },
    act: (_session, { owner }) => owner.sweep(),
    at: 'snapshotStore.remove',
    may: [''],
  },
}

for (const [transport, signal] of engineStops) {
  test(`stopped with ${signal} in the middle of each operation, and started [${transport}]`, async t => {
    const told = new Tally()
    const names = Object.keys(OPERATIONS).filter(name => [undefined, transport].includes(OPERATIONS[name].only))
    const worlds = await Promise.all(names.map(name => begin(name, transport)))
    try {
      await engine.halt(signal)
      for (const { barrier } of worlds) barrier.open()
      // What was under way may notice before the engine is back, or after.
      await engine.resume()
      for (const world of worlds) await goOn(world, told)
      let left
      const isEmpty = async () => (left = await fetchContainers()).length === 0
      await eventually('no container is left', isEmpty, 30_000).catch(error => {
        throw new Error(`left: ${JSON.stringify(left)}`, { cause: error })
      })
    } finally {
      for (const { owner, remove } of worlds) {
        await owner.close()
        remove()
      }
    }
    t.diagnostic(`${names.length} operations; what they and the next acquires were told: ${told}`)
  })
}

async function begin(name, transport) {
  const operation = OPERATIONS[name]
  const { remove, stores } = fileStores()
  const [runId, ownerId, barrier] = [randomUUID(), `stops-${randomUUID()}`, gate()]
  const options = {
    ...plainOptions(ownerId),
    socketPath: engine.socketPath,
    transport,
    workspace: { id: 'w' },
    limits: { cpus: 2, commandTimeoutMs: 80_000 },
    ...operation.options,
    ...gated(stores, operation.at, barrier),
  }
  const owner = createDockerSandboxEnvironment(options)
  const world = { name, operation, owner, runId, ownerId, stores, remove, barrier }
  world.session = await operation.before(world)
  barrier.shut = true
  const act = operation.act(world.session, world)
  world.end = act.then(
    value => ({ value }),
    error => ({ error }),
  )
  if (operation.at) await eventually(`${name} is at ${operation.at}`, () => barrier.waits, END_MS)
  return world
}

/** The end of what was under way, and the run's next acquires. */
async function goOn(world, told) {
  const { name, operation, owner, runId, stores } = world
  const { value, error } = await within(END_MS, name, world.end)
  if (error) {
    const is = `${error.name} ${error.code ?? ''}`
    assert.match(is, TYPED, `${name}: ${error.stack}`)
    assert.ok(!operation.never, `${name} rejected: ${error}`)
    told.add(`${name}: ${is}`)
  } else {
    // What was stopped has not come to its own end: a result that says so is made up.
    if (!operation.at || operation.goesOn) assert.ok(isCut(value, world), `${name}: ${JSON.stringify(value)}`)
    told.add(`${name}: ended well`)
  }
  const session = name.startsWith('acquire') && value ? value : world.session
  await session?.release({ status: 'suspended' })
  let lost = 0
  for (let attempt = 1; ; attempt++) {
    const settled = await owner.acquire({ runId }).then(
      again => ({ again }),
      failure => ({ failure }),
    )
    if (settled.again) {
      const found = (await settled.again.list()).entries.map(({ path }) => path)
      assert.ok(operation.may.includes(found.join()), `${name}: it holds ${found}`)
      for (const path of found) {
        const { contents } = await settled.again.readFile(path, { encoding: 'utf8' })
        assert.equal(contents, CONTENTS[path], `${name}: ${path}`)
      }
      await settled.again.release({ status: 'completed' })
      break
    }
    const { failure } = settled
    told.add(`then ${failure.code ?? failure.name}`)
    if (failure.code === operation.lost) {
      // There never was a snapshot: it says so, until the run ends.
      await expire(stores, world.ownerId)
      continue
    }
    assert.ok(
      ['SNAPSHOT_INVALID', 'LEASE_EXPIRED'].includes(failure.code) && attempt <= 3 && ++lost <= 1,
      `${name}: attempt ${attempt}: ${failure.stack}`,
    )
  }
  const report = await owner.sweep()
  assert.deepEqual(report.failures, [], name)
  assert.deepEqual(await stores.leaseStore.list(world.ownerId), [], name)
}

/** A result of a command that was ended. `docker exec` tells it by its exit code alone, that of a signal. */
function isCut({ outcome, exitCode }, { session }) {
  if (outcome === 'exited') return session.capabilities.transport === 'exec' && exitCode > 128
  return outcome === 'signaled' || outcome === 'timed_out'
}

async function expire(stores, ownerId) {
  for (const lease of await stores.leaseStore.list(ownerId)) {
    await stores.leaseStore.save({ ...lease, expiresAt: 1 }, lease.fence)
  }
}

/**
 * An engine that was killed may have one on its list, dead and without a name, that it removed: until it is started anew, and to
 * whoever asks for it there is no such container.
 */
async function fetchContainers() {
  const client = createNodeDockerClient({ socketPath: engine.socketPath })
  const listed = await client.listContainers('zhivex.sandbox=1')
  const found = listed.map(one =>
    client.inspectContainer(one.Id).then(
      ({ State }) => [{ ...one, State }],
      error => (error.code === 'NOT_FOUND' ? [] : Promise.reject(error)),
    ),
  )
  return (await Promise.all(found)).flat()
}
