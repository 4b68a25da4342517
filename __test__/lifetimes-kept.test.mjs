// What may still call stores and listeners of the application's own keeps them, though nothing else does: each of these is all
// that is left of an environment, and all goes on working, however often the garbage collector runs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { collectAll, collecting } from './support/garbage.mjs'
import * as keeping from './support/keeping.mjs'
import { PlainClient } from './support/plain-client.mjs'
import { failureOf } from './support/stores.mjs'

const sleep = seconds => ({ command: 'sleep', args: [seconds] })
/** More than may be on its way to a process that does not read, in bytes. */
const PIPE = 10_000_000

/** As `support/keeping.mjs` has it, over the in-memory engine, or a client of the application's own. A beat comes every 100 ms. */
const keepingOnly = (keep, client = new PlainClient(createMemoryDockerClient())) =>
  keeping.keepingOnly(
    objects =>
      createDockerSandboxEnvironment({
        workspace: { id: 'w' },
        shell: 'allow',
        transport: 'exec',
        leaseMs: 300,
        client,
        ...objects,
      }),
    keep,
  )

const acquired = environment => environment.acquire({ runId: 'r' })

test('a session, which goes on working', async () => {
  const { held, count, goesOn, dropped } = await keepingOnly(acquired)
  await goesOn('save')
  const session = () => held.kept
  await session().writeFile('f', 'text')
  assert.equal((await session().readFile('f', { encoding: 'utf8' })).contents, 'text')
  await collectAll()
  assert.equal((await session().exec({ command: 'cat', args: ['f'] })).stdout, 'text')
  assert.equal((await session().list()).entries.length, 1)
  await session().snapshot()
  assert.equal(count('saveSnapshot'), 1)
  await goesOn('save')
  await session().release({ status: 'completed' })
  assert.deepEqual([count('remove'), count('released'), count('heartbeat_failed')], [1, 1, 0])
  await dropped()
})

test('a method of a session', async () => {
  const { held, goesOn, dropped } = await keepingOnly(async environment => (await acquired(environment)).writeFile)
  await goesOn('save')
  assert.equal((await held.kept('f', 'text')).size, 4)
  await dropped()
})

test('an environment whose session nobody has any more, and which can still hand it back', async () => {
  const { held, count, goesOn, dropped } = await keepingOnly(async environment => {
    await acquired(environment)
    return environment
  })
  await goesOn('save')
  await held.kept.close()
  assert.deepEqual([count('closed'), count('heartbeat_failed')], [1, 0])
  await dropped()
})

/** What can be had of a process that runs for some seconds, and how it ends. */
const OF_A_PROCESS = {
  'a process': [process => process, process => process.kill()],
  'the iterator of a process': [process => process[Symbol.asyncIterator](), iterator => iterator.return()],
  'the end of a process': [process => process.kill, kill => kill()],
  'the input of a process': [process => process.write, write => write('text')],
  'the result of a process': [({ result }) => ({ promise: result }), ({ promise }) => promise],
  'a write that the process never takes': [
    async process => {
      await process.write(new Uint8Array(PIPE))
      return { promise: failureOf(process.write(new Uint8Array(PIPE))) }
    },
    ({ promise }) => promise,
  ],
}

for (const [what, [take, end]] of Object.entries(OF_A_PROCESS)) {
  test(what, async () => {
    const { held, count, goesOn, dropped } = await keepingOnly(
      async environment => take(await (await acquired(environment)).spawn(sleep('3'))),
      createMemoryDockerClient(),
    )
    await goesOn('save')
    await end(held.kept)
    // A promise that has settled calls nobody any more.
    if (!held.kept.promise) await goesOn('save')
    assert.equal(count('heartbeat_failed'), 0)
    await dropped()
  })
}

test('a stream that is being read, to its end', async () => {
  const { held, count, goesOn, dropped } = await keepingOnly(
    async environment => (await (await acquired(environment)).execStream(sleep('2')))[Symbol.asyncIterator](),
    createMemoryDockerClient(),
  )
  const ended = held.kept.next()
  await goesOn('save')
  assert.deepEqual(await ended, { value: undefined, done: true })
  await goesOn('save')
  assert.equal(count('operation'), 1)
  await dropped()
})

/** Holds a client's method up once, until `open` is called; it was called where `isReached`. */
function gate(client, method) {
  const gate = { isReached: false }
  const opened = new Promise(resolve => (gate.open = resolve))
  client.overrides[method] = async (...args) => {
    delete client.overrides[method]
    gate.isReached = true
    await opened
    return client[method](...args)
  }
  return gate
}

/** A run with a file in it. */
async function worked(environment) {
  const session = await acquired(environment)
  await session.writeFile('f', 'text')
  return session
}

/**
 * Calls, the method of the client that each is held up at, what is made ready before that, and what has to be asked of the
 * stores and told to the listener after it.
 */
const PENDING = {
  'an acquire': ['createContainer', environment => environment, acquired, { save: 1, acquired: 1 }],
  'an operation': ['getArchive', worked, session => session.list(), { operation: 1 }],
  'a command': ['exec', worked, session => session.exec({ command: 'true' }), { operation: 1 }],
  'a snapshot': ['getArchive', worked, session => session.snapshot(), { saveSnapshot: 1, snapshot_saved: 1 }],
  'a release that keeps': [
    'getArchive',
    worked,
    session => session.release({ status: 'suspended' }),
    { saveSnapshot: 1, released: 1 },
  ],
  'a release that removes': [
    'removeContainer',
    worked,
    session => session.release({ status: 'completed' }),
    { remove: 1, released: 1 },
  ],
  'a sweep': ['listContainers', environment => environment, environment => environment.sweep(), { swept: 1 }],
}

for (const [what, [method, prepare, call, expected]] of Object.entries(PENDING)) {
  test(`the promise of ${what}`, async () => {
    const mine = new PlainClient(createMemoryDockerClient())
    const { held, count, gone, dropped } = await keepingOnly(async environment => {
      const prepared = await prepare(environment)
      return { gate: gate(mine, method), done: call(prepared) }
    }, mine)
    await collecting('it is held up', () => held.kept.gate.isReached)
    await collectAll()
    assert.deepEqual([...gone], [])
    const before = Object.keys(expected).map(count)
    held.kept.gate.open()
    await held.kept.done
    // Events come a little later.
    await collecting('all of it happens', () =>
      Object.entries(expected).every(([name, times], n) => count(name) >= before[n] + times),
    )
    assert.equal(count('heartbeat_failed'), 0)
    await dropped()
  })
}

test('the promise of a close, which hands back a run whose command is being killed', async () => {
  const mine = new PlainClient(createMemoryDockerClient())
  const { held, count, gone, dropped } = await keepingOnly(async environment => {
    const session = await worked(environment)
    const command = gate(mine, 'exec')
    await session.execStream(sleep('100'))
    await collecting('it is held up', () => command.isReached)
    return { gate: command, done: environment.close() }
  }, mine)
  await collectAll()
  assert.deepEqual([[...gone], count('closed')], [[], 0])
  const saves = count('save')
  held.kept.gate.open()
  await held.kept.done
  await collecting('it is told', () => count('closed') === 1)
  assert.equal(count('save'), saves + 1)
  await dropped()
})
