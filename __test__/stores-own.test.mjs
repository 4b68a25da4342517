// Stores that the application wrote: called as methods, their answers checked, their failures told by name.
import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { test } from 'node:test'
import { SandboxError, createMemoryDockerClient } from '../index.js'
import { Leases, Snapshots, environment, eventually, failureOf, piecesOf } from './support/stores.mjs'

const setup = (options = {}) => {
  const stores = { leaseStore: new Leases(), snapshotStore: new Snapshots() }
  const client = createMemoryDockerClient()
  const make = () => environment({ ...stores, client, ownerId: 'o', ...options })
  return { ...stores, client, make, owner: make() }
}

const isRubbish = (error, message) => assert.deepEqual([error.code, error.message], ['CONFIG_INVALID', message])

test('a run lives in stores of the application’s own', async () => {
  const { leaseStore, snapshotStore, client, make, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  const [lease] = leaseStore.all()
  assert.deepEqual(Object.keys(lease).toSorted(), [
    'containerId',
    'containerName',
    'environmentId',
    'expiresAt',
    'fence',
    'fingerprint',
    'holder',
    'imageIds',
    'key',
    'ownerId',
    'runId',
    'snapshotState',
    'status',
    'token',
    'workspaceId',
  ])
  assert.equal(Object.getPrototypeOf(lease), Object.prototype)
  assert.deepEqual([lease.runId, lease.holder.pid], ['r', process.pid])
  assert.ok(lease.fence >= 1 && lease.fence <= 2 ** 30)
  await session.writeFile('f', 'kept')
  await session.release({ status: 'waiting_approval' })
  assert.equal(leaseStore.all()[0].holder, null)
  assert.ok(snapshotStore.bytes(lease.key).includes('kept'))

  for (const { Id } of await client.listContainers('zhivex.sandbox=1')) await client.removeContainer(Id)
  const again = await make().acquire({ runId: 'r' })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await again.release({ status: 'completed' })
  assert.deepEqual([leaseStore.all(), snapshotStore.size], [[], 0])
})

test('fields of the store’s own go through a resumed run', async () => {
  const { leaseStore, make, owner } = setup()
  await (await owner.acquire({ runId: 'r' })).release({ status: 'suspended' })
  leaseStore.put({ ...leaseStore.all()[0], _rev: { n: 7, of: ['a', null, 'é'] } })
  const session = await make().acquire({ runId: 'r' })
  assert.deepEqual(leaseStore.all()[0]._rev, { n: 7, of: ['a', null, 'é'] })
  await session.release({ status: 'suspended' })
  assert.deepEqual(leaseStore.all()[0]._rev, { n: 7, of: ['a', null, 'é'] })
})

test('two environments over one store have one holder', async () => {
  const { make } = setup()
  const acquired = await Promise.allSettled(Array.from({ length: 20 }, () => make().acquire({ runId: 'r' })))
  const [won, lost] = [acquired.filter(each => each.value), acquired.filter(each => each.reason)]
  assert.deepEqual([won.length, lost.length], [1, 19])
  for (const { reason } of lost) assert.equal(reason.name, 'ConflictError')
  await won[0].value.release({ status: 'completed' })
})

test('a save that lost the race is a conflict, and leaves no container', async () => {
  const { leaseStore, client, owner } = setup()
  leaseStore.overrides.save = () => false
  const error = await failureOf(owner.acquire({ runId: 'r' }))
  assert.equal(error.name, 'ConflictError')
  assert.deepEqual(await client.listContainers('zhivex.sandbox=1'), [])
})

test('a run that the store says another took over is a conflict for its old holder', async () => {
  const { leaseStore, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  const [lease] = leaseStore.all()
  const taken = { ...lease, fence: lease.fence + 1 }
  leaseStore.put(taken)
  assert.equal((await failureOf(session.list())).name, 'ConflictError')
  await session.release({ status: 'completed' })
  assert.deepEqual(leaseStore.all(), [taken])
})

test('closing an environment hands its runs back through the store', async () => {
  const { leaseStore, owner } = setup()
  await owner.acquire({ runId: 'r' })
  await owner.close()
  assert.equal(leaseStore.all()[0].holder, null)
})

const secret = 'postgres://user:secret@db'

test('what a lease store throws or rejects with is named, and is the cause; its words are not in the message', async () => {
  const thrown = Object.assign(new TypeError(secret), { code: 'ECONNREFUSED' })
  const ways = {
    throws: () => {
      throw thrown
    },
    rejects: () => Promise.reject(thrown),
  }
  for (const way of Object.values(ways)) {
    for (const method of ['load', 'save']) {
      const { leaseStore, owner } = setup()
      leaseStore[method] = way
      const error = await failureOf(owner.acquire({ runId: 'r' }))
      isRubbish(
        error,
        `leaseStore.${method}() of the application's own store failed with TypeError ECONNREFUSED; the cause is what it failed with.`,
      )
      assert.equal(error.cause, thrown)
    }
    const { leaseStore, owner } = setup()
    leaseStore.list = way
    assert.equal((await failureOf(owner.sweep())).cause, thrown)
  }
})

test('anything can be thrown', async () => {
  const hostile = Object.defineProperty({}, 'name', {
    get() {
      throw new Error('no')
    },
  })
  for (const thrown of [undefined, null, 'text', 5, Symbol('s'), hostile, new Proxy({}, {}), Object.create(null)]) {
    const { leaseStore, owner } = setup()
    leaseStore.load = () => Promise.reject(thrown)
    const error = await failureOf(owner.acquire({ runId: 'r' }))
    isRubbish(error, "leaseStore.load() of the application's own store failed; the cause is what it failed with.")
    assert.equal(error.cause, thrown)
  }
})

test('an error that cannot be looked at is refused as any other, at once', async () => {
  const no = () => {
    throw new Error('no')
  }
  const ours = (key, descriptor) => Object.defineProperty(new SandboxError('LIMIT', 'x'), key, descriptor)
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  for (const thrown of [
    new Proxy({}, { getPrototypeOf: no }),
    new Proxy(() => undefined, { get: no, getPrototypeOf: no, has: no }),
    revoked.proxy,
    ours('message', { get: no }),
    ours('message', { value: Symbol('m') }),
    ours('code', { get: no }),
    ours('code', { value: 5 }),
  ]) {
    for (const throws of [true, false]) {
      const { leaseStore, owner } = setup()
      // By the store itself, or by what it answers.
      const trap = () => {
        throw thrown
      }
      leaseStore.load = throws ? trap : () => new Proxy({}, { getPrototypeOf: trap, get: () => undefined })
      const error = await failureOf(owner.acquire({ runId: 'r' }))
      assert.equal(error.code, 'CONFIG_INVALID')
      if (throws) {
        assert.match(error.message, /^leaseStore\.load\(\) of the application's own store failed/)
        assert.equal(error.cause, thrown)
      }
    }
  }
})

test('a store may speak in errors of this package', async () => {
  const { leaseStore, owner } = setup()
  const thrown = new SandboxError('LIMIT', 'too many rows')
  leaseStore.load = () => Promise.reject(thrown)
  const error = await failureOf(owner.acquire({ runId: 'r' }))
  assert.deepEqual([error.code, error.message, error.cause], ['LIMIT', 'leaseStore.load(): too many rows', thrown])
})

test('what a lease store answers is checked field by field', async () => {
  const { leaseStore, make, owner } = setup()
  await (await owner.acquire({ runId: 'r' })).release({ status: 'suspended' })
  const [good] = leaseStore.all()
  const whole = 'it must be a whole number from 0 to 2^53 - 1.'
  const { token: _token, ...withoutToken } = good
  for (const [answer, message] of [
    [5, 'answered what it may not: the record was 5; it must be an object.'],
    ['text', 'answered what it may not: the record was a string; it must be an object.'],
    [[], 'answered what it may not: the record was a list; it must be an object.'],
    [{}, 'answered what it may not: key was missing; it must be a string.'],
    [withoutToken, 'answered what it may not: token was missing; it must be a string.'],
    [{ ...good, fence: -1 }, `answered what it may not: fence was -1; ${whole}`],
    [{ ...good, fence: 1.5 }, `answered what it may not: fence was 1.5; ${whole}`],
    [{ ...good, fence: '1' }, `answered what it may not: fence was a string; ${whole}`],
    [{ ...good, expiresAt: 2 ** 53 }, `answered what it may not: expiresAt was 9007199254740992; ${whole}`],
    [{ ...good, holder: 5 }, 'answered what it may not: holder was 5; it must be an object or null.'],
    [{ ...good, holder: { id: 'x' } }, 'answered what it may not: holder.hostId was missing; it must be a string.'],
    [{ ...good, key: 'k' }, "answered what it may not: the record's key is not the one that was asked for."],
  ]) {
    leaseStore.overrides = { load: () => answer }
    isRubbish(await failureOf(make().acquire({ runId: 'r' })), `leaseStore.load() ${message}`)
  }
  for (const [answer, message] of [
    [{ ...good, fence: Number.NaN }, 'its result.fence was NaN; JSON must be able to express it.'],
    [{ ...good, fence: 1n }, 'its result.fence was a bigint; JSON must be able to express it.'],
    [{ ...good, at: new Date(0) }, 'its result.at was an object of class Date; JSON must be able to express it.'],
    [() => good, 'its result was a function; JSON must be able to express it.'],
    [Symbol('s'), 'its result was a symbol; JSON must be able to express it.'],
  ]) {
    leaseStore.overrides = { load: () => answer }
    isRubbish(await failureOf(make().acquire({ runId: 'r' })), `leaseStore.load(): ${message}`)
  }
  for (const answer of [undefined, null, 1, 'true', {}]) {
    leaseStore.overrides = { save: () => answer }
    const error = await failureOf(make().acquire({ runId: 'r' }))
    assert.match(error.message, /^leaseStore\.save\(\): its result was .*; it must be true or false\.$/)
  }
  for (const [answer, message] of [
    [undefined, 'leaseStore.list(): its result was undefined; it must be an array of records.'],
    [[{}], 'leaseStore.list() answered what it may not: key was missing; it must be a string.'],
    [
      [{ ...good, ownerId: 'other' }],
      "leaseStore.list() answered what it may not: a record's ownerId is not the one that was asked for.",
    ],
  ]) {
    leaseStore.overrides = { list: () => answer }
    isRubbish(await failureOf(make().sweep()), message)
  }
})

test('null is no record, as undefined is, and a promise of another kind will do', async () => {
  const { leaseStore, owner } = setup()
  leaseStore.overrides = { load: () => null }
  const session = await owner.acquire({ runId: 'r' })
  leaseStore.overrides = {}
  const load = leaseStore.load.bind(leaseStore)
  // oxlint-disable-next-line unicorn/no-thenable -- that is what this test is about
  leaseStore.load = key => ({ then: resolve => load(key).then(resolve) })
  assert.deepEqual((await session.list()).entries, [])
  await session.release({ status: 'completed' })
})

/** A run that waits, whose container is lost: its next acquire loads the snapshot. */
async function waiting(more) {
  const found = setup(more)
  const session = await found.owner.acquire({ runId: 'r' })
  await session.writeFile('big', new Uint8Array(300_000).fill(7))
  await session.release({ status: 'waiting_approval' })
  for (const { Id } of await found.client.listContainers('zhivex.sandbox=1')) await found.client.removeContainer(Id)
  const [{ key }] = found.leaseStore.all()
  return { ...found, tar: found.snapshotStore.bytes(key), about: (await found.snapshotStore.load(key)).meta }
}

test('a tar comes in pieces of any size, from any iterable, and not faster than it is read', async () => {
  const { snapshotStore, client, make, tar, about } = await waiting()
  const cut = size =>
    Array.from({ length: Math.ceil(tar.length / size) }, (_, n) => tar.subarray(n * size, (n + 1) * size))
  let most = 0
  let asked = 0
  const slow = pieces => ({
    [Symbol.asyncIterator]() {
      let pending = 0
      const iterator = pieces[Symbol.iterator]()
      return {
        async next() {
          asked++
          most = Math.max(most, ++pending)
          await new Promise(setImmediate)
          pending--
          return iterator.next()
        },
      }
    },
  })
  for (const pieces of [[tar], cut(512), cut(4_097), cut(1_000_003), [new Uint8Array(0), tar, new Uint8Array(0)]]) {
    for (const shape of [pieces, piecesOf(pieces), slow(pieces)]) {
      snapshotStore.overrides.load = () => ({ meta: about, tar: shape })
      const session = await make().acquire({ runId: 'r' })
      const found = await session.readFile('big')
      assert.equal(found.size, 300_000)
      snapshotStore.overrides = {}
      await session.release({ status: 'waiting_approval' })
      for (const { Id } of await client.listContainers('zhivex.sandbox=1')) await client.removeContainer(Id)
    }
  }
  // One piece is asked for at a time.
  assert.deepEqual([most, asked > 600], [1, true])
})

test('pieces are those at the time they were given, whatever either side does with its memory later', async () => {
  const { snapshotStore, client, make, owner } = setup({ limits: { maxFileBytes: 2_000_000 } })
  const contents = Uint8Array.from({ length: 1_000_000 }, (_, at) => (at * 7 + (at >> 8)) % 251)
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('f', contents)
  // What a store gets is its own: it may keep a piece as it is, and change it.
  const kept = []
  snapshotStore.overrides.save = async (key, about, tar) => {
    for await (const piece of tar) {
      kept.push(piece.slice())
      piece.fill(0xff)
    }
    snapshotStore.overrides.load = () => ({ meta: about, tar: reusing(kept) })
  }
  await session.release({ status: 'suspended' })
  assert.equal(Buffer.concat(kept).length % 512, 0)
  for (const { Id } of await client.listContainers('zhivex.sandbox=1')) await client.removeContainer(Id)
  const again = await make().acquire({ runId: 'r' })
  assert.deepEqual((await again.readFile('f')).contents, contents)
  await again.release({ status: 'completed' })
})

/** All pieces in one buffer, as of a reader that has only one: it holds the next one as soon as that is asked for. */
async function* reusing(pieces) {
  const buffer = new Uint8Array(Math.max(...pieces.map(({ length }) => length)))
  for (const piece of pieces) {
    buffer.fill(0xff)
    buffer.set(piece)
    yield buffer.subarray(0, piece.length)
    buffer.fill(0xff)
  }
}

test('what a snapshot store loads is checked', async () => {
  const { snapshotStore, make, about } = await waiting()
  for (const [answer, message] of [
    [5, 'snapshotStore.load(): its result was 5; it must be an object with meta and tar.'],
    [
      { meta: about },
      'snapshotStore.load(): its result.tar was undefined; it must be an async iterable of Uint8Array.',
    ],
    [
      { meta: about, tar: new Uint8Array(512) },
      'snapshotStore.load(): its result.tar was an object of class Uint8Array; it must be an async iterable of Uint8Array.',
    ],
    [{ tar: [] }, 'snapshotStore.load(): its result.meta was undefined; JSON must be able to express it.'],
    [
      { meta: { ...about, createdAt: -5 }, tar: [] },
      'snapshotStore.load() answered what it may not: meta: createdAt was -5; it must be a whole number from 0 to 2^53 - 1.',
    ],
  ]) {
    snapshotStore.overrides.load = () => answer
    isRubbish(await failureOf(make().acquire({ runId: 'r' })), message)
  }
  snapshotStore.overrides.load = () => undefined
  assert.equal((await failureOf(make().acquire({ runId: 'r' }))).code, 'SNAPSHOT_INVALID')
})

test('a piece that is no Uint8Array is an error, and the iterator is told to return', async () => {
  const { snapshotStore, make, about } = await waiting()
  const gone = new Uint8Array(512)
  structuredClone(gone, { transfer: [gone.buffer] })
  for (const [piece, message] of [
    ['text', 'A piece of the tar was a string of 4 characters; it must be a Uint8Array.'],
    [new Uint16Array(256), 'A piece of the tar was an object of class Uint16Array; it must be a Uint8Array.'],
    [new ArrayBuffer(512), 'A piece of the tar was an object of class ArrayBuffer; it must be a Uint8Array.'],
    [
      gone,
      'A piece of the tar cannot be read, its memory is gone: the buffer was transferred or detached before the call. Pass a buffer that is still yours.',
    ],
  ]) {
    let returned = 0
    async function* tar() {
      try {
        yield new Uint8Array(0)
        yield piece
      } finally {
        returned++
      }
    }
    snapshotStore.overrides.load = () => ({ meta: about, tar: tar() })
    isRubbish(await failureOf(make().acquire({ runId: 'r' })), `snapshotStore.load() tar.next(): ${message}`)
    await eventually('the iterator returned', () => returned > 0)
    assert.equal(returned, 1)
  }
})

test('an iterator of a tar whose next gives no object is refused with what it gave, and told to return', async () => {
  const { snapshotStore, make, about } = await waiting()
  for (const [step, described] of [
    [undefined, 'undefined'],
    [null, 'null'],
    [0, '0'],
  ]) {
    let returned = 0
    const tar = { [Symbol.asyncIterator]: () => ({ next: async () => step, return: async () => void returned++ }) }
    snapshotStore.overrides.load = () => ({ meta: about, tar })
    isRubbish(
      await failureOf(make().acquire({ runId: 'r' })),
      `snapshotStore.load() tar.next(): The result of next() of the iterator of the tar was ${described}; it must be an object with done and value.`,
    )
    await eventually('the iterator returned', () => returned > 0)
    assert.equal(returned, 1)
  }
})

test('a tar that throws is named, with its error as the cause', async () => {
  const { snapshotStore, make, about } = await waiting()
  const thrown = new RangeError(secret)
  async function* tar() {
    yield new Uint8Array(512)
    throw thrown
  }
  snapshotStore.overrides.load = () => ({ meta: about, tar: tar() })
  const error = await failureOf(make().acquire({ runId: 'r' }))
  isRubbish(
    error,
    "snapshotStore.load() tar.next() of the application's own store failed with RangeError; the cause is what it failed with.",
  )
  assert.equal(error.cause, thrown)
  // The snapshot is still good: the run can be acquired once the store works again.
  snapshotStore.overrides = {}
  const session = await make().acquire({ runId: 'r' })
  assert.equal((await session.readFile('big')).size, 300_000)
  await session.release({ status: 'completed' })
})

/** Tars that nobody has read, by kind, each with what tells whether it was closed. */
const UNREAD = {
  'a file': () => {
    const tar = createReadStream(new URL(import.meta.url))
    return { tar, isClosed: () => tar.closed }
  },
  'a file that is not there': () => {
    const tar = createReadStream('/no/such/file')
    return { tar, isClosed: () => tar.closed }
  },
  'a stream of the web': () => {
    let closed = false
    const tar = new ReadableStream({ cancel: () => void (closed = true) })
    return { tar, isClosed: () => closed }
  },
  ...Object.fromEntries(
    [Symbol.asyncIterator, Symbol.iterator].map(key => [
      `an iterable by ${key.description}`,
      () => {
        let closed = 0
        const end = () => {
          closed++
          return {}
        }
        return { tar: { [key]: () => ({ next: () => assert.fail(), return: end }) }, isClosed: () => closed === 1 }
      },
    ]),
  ),
  'one whose ends all fail': () => {
    let closed = 0
    const fails = () => {
      closed++
      throw new Error('no')
    }
    const rejects = async () => fails()
    const tar = {
      destroy: fails,
      cancel: rejects,
      on: fails,
      [Symbol.asyncIterator]: () => ({ next: fails, return: rejects }),
    }
    return { tar, isClosed: () => closed === 4 }
  },
}

for (const [what, make] of Object.entries(UNREAD)) {
  test(`a tar that is not read is closed: ${what}`, async () => {
    const { snapshotStore, leaseStore, owner } = setup()
    const session = await owner.acquire({ runId: 'r' })
    await session.writeFile('f', 'x')
    await session.snapshot()
    const { meta } = await snapshotStore.load(leaseStore.all()[0].key)
    const given = []
    for (const about of [meta, { ...meta, createdAt: -5 }, { ...meta, createdAt: 5n }]) {
      snapshotStore.overrides.load = () => {
        const found = make()
        given.push(found)
        return { meta: about, tar: found.tar }
      }
      // It only looks at what the last one says of itself.
      await session.snapshot().catch(({ name }) => assert.equal(name, 'SandboxError'))
    }
    assert.ok(given.length >= 3)
    await eventually('all are closed', () => given.every(({ isClosed }) => isClosed()))
    snapshotStore.overrides = {}
    await session.release({ status: 'completed' })
  })
}

test('a save that resolves before it has read the tar has saved nothing', async () => {
  const { snapshotStore, leaseStore, owner, make } = setup()
  const first = await owner.acquire({ runId: 'r' })
  await first.writeFile('f', new Uint8Array(100_000))
  snapshotStore.overrides.save = async (_key, _meta, tar) => {
    await tar.next()
  }
  await first.release({ status: 'suspended' })
  assert.deepEqual([leaseStore.all()[0].snapshotState, leaseStore.all()[0].holder], ['none', null])
  snapshotStore.overrides = {}
  const second = await make().acquire({ runId: 'r' })
  await second.release({ status: 'suspended' })
  assert.equal(leaseStore.all()[0].snapshotState, 'current')
})

test('a save that fails never makes release reject', async () => {
  for (const save of [
    () => {
      throw new Error(secret)
    },
    () => Promise.reject(undefined),
    async (_key, _meta, tar) => {
      for await (const _piece of tar) throw new Error(secret)
    },
  ]) {
    const { snapshotStore, leaseStore, owner } = setup()
    const session = await owner.acquire({ runId: 'r' })
    snapshotStore.overrides.save = save
    assert.equal(await session.release({ status: 'suspended' }), undefined)
    assert.equal(leaseStore.all()[0].snapshotState, 'none')
  }
})

test('a store that never answers is a TIMEOUT that names the method', { timeout: 60_000 }, async () => {
  const never = () => new Promise(() => undefined)
  const lease = setup()
  lease.leaseStore.overrides.load = never
  const [load, next] = [await waiting(), await waiting()]
  load.snapshotStore.overrides.load = never
  next.snapshotStore.overrides.load = () => ({
    meta: next.about,
    tar: { [Symbol.asyncIterator]: () => ({ next: never }) },
  })
  const errors = await Promise.all(
    [lease.owner, load.make(), next.make()].map(owner => failureOf(owner.acquire({ runId: 'r' }))),
  )
  const advice = 'Check that the store settles every promise that it returns.'
  // A promise that nothing holds any more may be collected before the time is over.
  const expected = [
    /^leaseStore\.load\(\) (did not answer within 7 s|was never answered: its promise can settle no more)\./,
    /^snapshotStore\.load\(\) (did not answer within 30 s|was never answered: its promise can settle no more)\./,
    /^snapshotStore\.load\(\) tar\.next\(\) (did not answer within 30 s|was never answered: its promise can settle no more)\./,
  ]
  for (const [index, error] of errors.entries()) {
    assert.equal(error.code, 'TIMEOUT')
    assert.match(error.message, expected[index])
    assert.ok(error.message.endsWith(advice))
  }
})

test('at most 256 calls of a store are under way at a time; more wait', async () => {
  const { leaseStore, owner } = setup()
  let [now, most] = [0, 0]
  const release = []
  const save = leaseStore.save.bind(leaseStore)
  leaseStore.save = async (...args) => {
    most = Math.max(most, ++now)
    await new Promise(resolve => release.push(resolve))
    now--
    return save(...args)
  }
  const acquiring = Promise.all(Array.from({ length: 300 }, (_, n) => owner.acquire({ runId: `r${n}` })))
  await eventually('256 are under way', () => release.length === 256)
  // Each that ends lets one more in.
  const letting = setInterval(() => release.splice(0).forEach(resolve => resolve()), 1)
  const sessions = await acquiring
  assert.deepEqual([sessions.length, most], [300, 256])
  await Promise.all(sessions.map(session => session.release({ status: 'completed' })))
  clearInterval(letting)
  assert.deepEqual(leaseStore.all(), [])
})

test('an object that lacks a method is refused by name', () => {
  const { save: _save, ...withoutSave } = { load() {}, save() {}, remove() {}, list() {} }
  for (const [options, message] of [
    [{ leaseStore: withoutSave }, 'Option leaseStore.save was undefined; it must be a method.'],
    [{ snapshotStore: { load() {} } }, 'Option snapshotStore.save was undefined; it must be a method.'],
    [{ leaseStore: 5 }, 'Option leaseStore was 5; it must be an object like that of createMemoryLeaseStore().'],
  ]) {
    assert.throws(() => environment(options), { code: 'CONFIG_INVALID', message })
  }
})
