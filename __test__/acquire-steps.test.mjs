// An acquire that is aborted, or whose engine or store fails, at each of its steps in turn: every call of the client and of
// the stores. Nothing that it made is left, what it found is as it was, and the next acquire works.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { PlainClient } from './support/plain-client.mjs'
import { Leases, Snapshots } from './support/stores.mjs'

/** Calls `step` before each call of an object's method, and passes on what that resolves to, or throws. */
function stepping(object, methods, step) {
  for (const method of methods) {
    const standard = object[method].bind(object)
    object[method] = async (...args) => {
      await step(method)
      return standard(...args)
    }
  }
  return object
}

const CLIENT = (
  'createContainer startContainer inspectContainer removeContainer killContainer listContainers putArchive getArchive ' +
  'exec realpath'
).split(' ')

/** A client, stores and an environment over them whose every call goes through `world.step`. */
function newWorld(options = {}) {
  const world = { step: async () => undefined }
  const step = name => method => world.step(`${name}.${method}`)
  world.engine = createMemoryDockerClient()
  const leaseStore = new Leases()
  const snapshotStore = new Snapshots()
  world.leases = leaseStore
  world.snapshots = snapshotStore
  world.environment = createDockerSandboxEnvironment({
    client: stepping(new PlainClient(world.engine), CLIENT, step('client')),
    leaseStore: stepping(leaseStore, ['load', 'save', 'remove', 'list'], step('leaseStore')),
    snapshotStore: stepping(snapshotStore, ['load', 'save', 'remove'], step('snapshotStore')),
    ownerId: 'o',
    workspace: { id: 'w', files: [{ path: 'seed', contents: 's' }] },
    ...options,
  })
  world.containers = () => world.engine.listContainers('zhivex.sandbox=1')
  return world
}

async function waiting(options) {
  const world = newWorld(options)
  const session = await world.environment.acquire({ runId: 'r' })
  await session.writeFile('kept', 'k')
  await session.release({ status: 'waiting_approval' })
  return world
}

const SITUATIONS = {
  'a new run': { prepare: async () => newWorld(), files: ['seed'] },
  'a run that waits': { prepare: () => waiting(), files: ['kept', 'seed'] },
  'a run whose container was lost': {
    async prepare() {
      const world = await waiting()
      for (const { Id } of await world.containers()) await world.engine.removeContainer(Id)
      return world
    },
    files: ['kept', 'seed'],
  },
  'a run whose holder died': {
    async prepare() {
      const world = newWorld()
      const session = await world.environment.acquire({ runId: 'r' })
      await session.writeFile('kept', 'k')
      const [lease] = world.leases.all()
      world.leases.put({ ...lease, holder: { ...lease.holder, startTime: 1 } })
      return world
    },
    files: ['kept', 'seed'],
  },
  'a run whose lease has expired': {
    async prepare() {
      const world = await waiting()
      const [lease] = world.leases.all()
      world.leases.put({ ...lease, expiresAt: 1 })
      return world
    },
    code: 'LEASE_EXPIRED',
    files: ['seed'],
  },
}

/** How a step goes wrong: what is done when it comes, and what the acquire may reject with then. */
const WAYS = {
  aborted: {
    act: controller => controller.abort(new Error('enough')),
    check(error) {
      assert.deepEqual([error.code, error.cause?.message], ['CANCELLED', 'enough'])
    },
  },
  failed: {
    act() {
      throw new Error('broken')
    },
    check(error, step) {
      assert.match(error.code, /^(CONFIG_INVALID|DOCKER_API)$/, step)
      assert.equal(error.cause?.message, 'broken', step)
    },
  },
}

/** Acquires, and does `act` at the step of this number. Resolves to how it ended, and the names of all steps. */
async function acquireWith(world, number, act) {
  const controller = new AbortController()
  const steps = []
  world.step = async name => {
    steps.push(name)
    if (steps.length === number) await act(controller)
  }
  const settled = await world.environment.acquire({ runId: 'r', abortSignal: controller.signal }).then(
    session => ({ session }),
    error => ({ error }),
  )
  world.step = async () => undefined
  return { ...settled, steps }
}

for (const [situation, { prepare, files, code }] of Object.entries(SITUATIONS)) {
  for (const [way, { act, check }] of Object.entries(WAYS)) {
    test(`${situation}, ${way} at each step`, async () => {
      let number = 0
      for (let reached = true; reached;) {
        const world = await prepare()
        const before = { containers: await world.containers(), leases: world.leases.all().length }
        const { session, error, steps } = await acquireWith(world, ++number, act)
        reached = steps.length >= number
        const step = `step ${number}, ${steps[number - 1]}`
        if (error) {
          if (error.code !== code) check(error, step)
          // Nothing that no lease knows of; what was there may have to be removed.
          const known = [...before.containers, ...world.leases.all().map(lease => ({ Id: lease.containerId }))]
          const left = await world.containers()
          assert.ok(left.length <= 1 && left.every(({ Id }) => known.some(one => one.Id === Id)), step)
          assert.ok(world.leases.all().length <= before.leases, step)
          assert.equal(world.leases.all()[0]?.holder?.heartbeatAt || 0, before.leases ? heartbeatOf(world) : 0, step)
        }
        const next = session ?? (await again(world, step))
        const found = await next.list()
        assert.deepEqual(
          found.entries.map(({ path }) => path),
          files,
          step,
        )
        assert.equal((await world.containers()).length, 1, step)
        await next.release({ status: 'completed' })
        assert.deepEqual([await world.containers(), world.leases.all(), world.snapshots.size], [[], [], 0], step)
        await world.environment.close()
      }
      // One more than there are.
      assert.ok(number >= 5, `only ${number - 1} steps`)
    })

    /** The next acquire, at once; of an expired run it may be the one that says so. */
    async function again(world, step) {
      const acquire = () => world.environment.acquire({ runId: 'r' })
      try {
        return await acquire()
      } catch (error) {
        assert.equal(error.code, code, `${step}: ${error.message}`)
        return acquire()
      }
    }
  }
}

/** Of a holder that is dead already, or nobody: an acquire that failed leaves nobody who would have to fall silent first. */
function heartbeatOf(world) {
  const holder = world.leases.all()[0]?.holder
  return holder && holder.startTime === 1 ? holder.heartbeatAt : 0
}
