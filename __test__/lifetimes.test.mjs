// Stores, clients, resolvers and listeners of the application's own go with what may call them, whatever they refer to.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { allCollected, collecting } from './support/garbage.mjs'
import { PlainClient } from './support/plain-client.mjs'
import { Leases, Snapshots, failureOf } from './support/stores.mjs'

const require = createRequire(import.meta.url)
const native = require('../binding.cjs')
const { createApi } = require('../js/create.cjs')

const COUNT = 50
const options = { workspace: { id: 'w' }, shell: 'allow', transport: 'exec', ownerId: 'o' }

/** Objects of the application's own that refer to `self`, whose environment they are for, in each of the ways. */
const OBJECTS = {
  leaseStore: self => Object.assign(new Leases(), { self }),
  snapshotStore: self => Object.assign(new Snapshots(), { self }),
  client: self => Object.assign(new PlainClient(createMemoryDockerClient()), { self }),
  resolveHost: self => () => [String(self.environment)],
  onEvent: self => event => event.type === 'never' && self.environment.close(),
}

const objectsOf = self => Object.fromEntries(Object.entries(OBJECTS).map(([name, make]) => [name, make(self)]))

/** What of the native part takes a function, and where among its arguments. */
const TAKERS = { jsLeaseStore: 0, jsSnapshotStore: 0, jsDockerClient: 0, jsResolver: 0, prepareEnvironment: 6 }

/** The package over a native part whose functions to call, each of which it holds as a root, are given to `note`. */
function apiNoting(note) {
  const noting = Object.entries(TAKERS).map(([name, at]) => [
    name,
    (...args) => {
      if (args[at]) note(args[at])
      return native[name](...args)
    },
  ])
  return createApi({ ...native, ...Object.fromEntries(noting) })
}

const ENDS = {
  released: async ({ session }) => session.release({ status: 'completed' }),
  'released for later, and closed': async ({ session, environment }) => {
    await session.release({ status: 'suspended' })
    await environment.close()
  },
  closed: async ({ environment }) => environment.close(),
  'never released': async () => undefined,
}

for (const names of [...Object.keys(OBJECTS).map(name => [name]), Object.keys(OBJECTS)]) {
  const title = names.length === 1 ? names[0] : 'all of them'
  for (const [end, ended] of Object.entries(ENDS)) {
    test(`an environment goes although it is referred to by ${title}: ${end}`, () =>
      allCollected(COUNT, async watch => {
        // The native part of a session that goes on is no longer the business of this one's.
        const api = apiNoting(called => end === 'never released' || watch('what the native part calls', called))
        const self = {}
        const objects = Object.fromEntries(names.map(name => [name, OBJECTS[name](self)]))
        self.environment = api.createDockerSandboxEnvironment({
          ...options,
          client: api.createMemoryDockerClient(),
          ...objects,
        })
        watch('environments', self.environment)
        for (const [name, object] of Object.entries(objects)) watch(name, object)
        self.session = await self.environment.acquire({ runId: 'r' })
        watch('sessions', self.session)
        await self.session.writeFile('f', 'x')
        await ended(self)
      }))
  }
}

test('a session that nobody released keeps nothing, with commands under way', () =>
  allCollected(COUNT, async watch => {
    const self = {}
    const objects = { ...objectsOf(self), client: createMemoryDockerClient() }
    self.environment = createDockerSandboxEnvironment({ ...options, ...objects })
    self.session = await self.environment.acquire({ runId: 'r' })
    self.command = await self.session.execStream({ command: 'sleep', args: ['100'] })
    self.spawned = await self.session.spawn({ command: 'sleep', args: ['100'] })
    self.pieces = self.spawned[Symbol.asyncIterator]()
    for (const [name, object] of Object.entries({ ...self, ...objects })) watch(name, object)
  }))

test('an error that refers to the store that it came of does not keep it', () =>
  allCollected(COUNT, async watch => {
    const leaseStore = new Leases()
    leaseStore.overrides.load = () => Promise.reject(Object.assign(new Error('down'), { leaseStore }))
    const environment = createDockerSandboxEnvironment({ ...options, leaseStore })
    watch('stores', leaseStore)
    const { cause } = await failureOf(environment.acquire({ runId: 'r' }))
    assert.equal(cause.leaseStore, leaseStore)
  }))

test('a command of a client that never settles, and listens to its signal, does not keep the client', () =>
  allCollected(COUNT, async watch => {
    const client = new PlainClient(createMemoryDockerClient())
    const environment = createDockerSandboxEnvironment({ ...options, client })
    watch('clients', client)
    const session = await environment.acquire({ runId: 'r' })
    client.overrides.exec = (_id, { signal }) =>
      new Promise(() => signal.addEventListener('abort', () => String(client.kind)))
    // Nobody can settle that any more, which is found out and told.
    session.exec({ command: 'true' }).catch(() => undefined)
  }))

test('what the native part calls when they are gone is refused by name', async () => {
  const called = []
  const refused = []
  const gone = new Set()
  const registry = new FinalizationRegistry(name => gone.add(name))
  const make = () => {
    const self = {}
    const objects = objectsOf(self)
    for (const [name, object] of Object.entries(objects)) registry.register(object, name)
    self.environment = apiNoting(each => called.push(each)).createDockerSandboxEnvironment({ ...options, ...objects })
  }
  make()
  await collecting('they are gone', () => gone.size === Object.keys(OBJECTS).length)
  const call = method => ({
    method: () => method,
    argumentsJson: () => '[]',
    stream: () => 0,
    answer: () => assert.fail('answered'),
    answerPiece: piece => refused.push(piece),
    refuse: (...args) => refused.push(args),
  })
  // In the order in which they were made; the last one hears events.
  const [resolver, client, leases, snapshots, hear] = called
  resolver(call('resolveHost'))
  client(call('createContainer'))
  leases(call('load'))
  snapshots(call('save'))
  hear('{"type":"closed"}')
  await new Promise(resolve => setImmediate(resolve))
  const message = (name, what) =>
    `${name}: the application's own ${what} was collected, since nothing held its environment any more, nor a session or ` +
    'stream of that. Keep a session until it is released.'
  assert.deepEqual(refused, [
    ['RELEASED', message('resolveHost()', 'function'), 0],
    ['RELEASED', message('client.createContainer()', 'Docker client'), 0],
    ['RELEASED', message('leaseStore.load()', 'store'), 0],
    ['RELEASED', message('snapshotStore.save()', 'store'), 0],
  ])
})

/** Leaves a session behind that was not released, and whose lease beats every 100 ms. */
async function forget(objects, watch = () => undefined) {
  const self = {}
  self.environment = createDockerSandboxEnvironment({
    ...options,
    leaseMs: 300,
    client: createMemoryDockerClient(),
    ...objects(self),
  })
  const session = await self.environment.acquire({ runId: 'r' })
  watch(session)
}

test('a run whose session is gone, and its store with it, falls silent; a listener that is still there is told', async () => {
  const told = []
  const onEvent = ({ type, code }) => told.push([type, code])
  await forget(self => ({ leaseStore: Object.assign(new Leases(), { self }), onEvent }))
  await collecting('it falls silent', () => told.length > 1)
  assert.deepEqual(told, [
    ['acquired', undefined],
    ['heartbeat_failed', 'RELEASED'],
  ])
  assert.equal(typeof onEvent, 'function')
})

test('a run whose session is gone is held on while its store is there, as in a store of this package', async () => {
  const leaseStore = new Leases()
  let gone = false
  const registry = new FinalizationRegistry(() => (gone = true))
  await forget(
    () => ({ leaseStore }),
    session => registry.register(session),
  )
  await collecting('the session goes', () => gone)
  const before = leaseStore.calls.length
  await collecting('it beats', () => leaseStore.calls.length > before + 10)
  const error = await failureOf(createDockerSandboxEnvironment({ ...options, leaseStore }).acquire({ runId: 'r' }))
  assert.equal(error.name, 'ConflictError')
})
