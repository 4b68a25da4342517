// `onEvent`: whatever a listener is or does, and what the real addon passes to it over the in-memory engine.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { failure, fakeBinding } from './support/fake-binding.mjs'
import { collectGarbage } from './support/garbage.mjs'
import { eventually } from './support/wait.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

const workspace = { id: 'w' }

/** An environment over the binding in JavaScript, and what the native part would call. */
function faked(onEvent, overrides) {
  const { binding, calls } = fakeBinding(overrides)
  const environment = createApi(binding).createDockerSandboxEnvironment({ workspace, onEvent })
  const [, json, , , , , , hear] = calls.find(([name]) => name === 'prepareEnvironment')
  return { environment, json, hear }
}

test('only a function is a listener, and it is no part of the manifest', () => {
  for (const [onEvent, was] of [
    [null, 'null'],
    [1, '1'],
    ['secret', 'a string of 6 characters'],
    [{}, 'an object'],
    [[], 'an array'],
  ]) {
    assert.throws(() => faked(onEvent), {
      code: 'CONFIG_INVALID',
      message: `Option onEvent was ${was}; it must be a function.`,
    })
  }
  assert.equal(faked(undefined).hear, undefined)
  assert.equal(faked(() => undefined).json, '{"workspace":{"id":"w"}}')
})

test('each event is an object of its own, and the listener gets nothing else', () => {
  const heard = []
  const { hear } = faked(function (...args) {
    heard.push([this, args])
  })
  assert.equal(hear('{"type":"closed","at":1}'), undefined)
  hear('{"type":"closed","at":1,"dropped":2}')
  assert.deepEqual(heard, [
    [undefined, [{ type: 'closed', at: 1 }]],
    [undefined, [{ type: 'closed', at: 1, dropped: 2 }]],
  ])
})

const HORRIBLE = {
  throws: () => {
    throw new Error('on purpose')
  },
  'throws nothing': () => {
    throw undefined
  },
  rejects: async () => {
    throw new Error('on purpose')
  },
  'never ends': () => new Promise(() => undefined),
  'is a then that throws': () => ({
    // oxlint-disable-next-line unicorn/no-thenable -- that is the point
    get then() {
      throw new Error('on purpose')
    },
  }),
  // oxlint-disable-next-line unicorn/no-thenable -- that is the point
  'is a then that rejects': () => ({ then: (_, reject) => reject(new Error('on purpose')) }),
  'is a proxy that was revoked': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
}

for (const [what, onEvent] of Object.entries(HORRIBLE)) {
  test(`a listener that ${what} changes nothing`, async () => {
    const unhandled = []
    const listen = error => unhandled.push(error)
    process.on('unhandledRejection', listen)
    try {
      const { environment, hear } = faked(onEvent)
      for (let n = 0; n < 3; n++) assert.equal(hear('{"type":"closed"}'), undefined)
      const session = await environment.acquire({ runId: 'r' })
      await session.release({ status: 'completed' })
      const real = createDockerSandboxEnvironment({ workspace, client: createMemoryDockerClient(), onEvent })
      const run = await real.acquire({ runId: 'r' })
      await run.writeFile('f', 'x')
      await run.release({ status: 'completed' })
      await real.close()
      await new Promise(resolve => setTimeout(resolve, 50))
    } finally {
      process.off('unhandledRejection', listen)
    }
    assert.deepEqual(unhandled, [])
  })
}

test('an acquire that fails leaves the listener where it was', async () => {
  const heard = []
  const { environment, hear } = faked(event => heard.push(event.type), { acquire: () => failure('LIMIT') })
  await assert.rejects(environment.acquire({ runId: 'r' }), { code: 'LIMIT' })
  hear('{"type":"cleanup_failed"}')
  assert.deepEqual(heard, ['cleanup_failed'])
})

/** An environment over the in-memory engine, and the events that it told. */
function real(options = {}, listen = () => undefined) {
  const heard = []
  const environment = createDockerSandboxEnvironment({
    workspace,
    shell: 'allow',
    transport: 'exec',
    client: createMemoryDockerClient(),
    ...options,
    onEvent(event) {
      heard.push(event)
      return listen(event, environment)
    },
  })
  const types = () => heard.map(({ type }) => type)
  return { environment, heard, types }
}

test('a run in order, with times, ids and sentences', async () => {
  const { environment, heard, types } = real()
  const before = Date.now()
  const session = await environment.acquire({ runId: 'r' })
  await session.exec({ command: 'echo', args: ['hello'], stdin: 'four' })
  await session.release({ status: 'completed' })
  await environment.close()
  await eventually('all are told', () => types().includes('closed'))
  assert.deepEqual(types(), ['acquired', 'operation', 'released', 'closed'])
  for (const event of heard) {
    assert.ok(event.at >= before && event.at <= Date.now())
    assert.equal(event.runId, event.type === 'closed' ? undefined : 'r')
    assert.ok(event.message.endsWith('.') && event.message.includes(`${event.durationMs} ms`), event.message)
    assert.ok(Number.isInteger(event.durationMs) && event.durationMs >= 0)
    assert.equal(event.dropped, undefined)
  }
  const { operation, outcome, code, bytesIn, bytesOut } = heard[1]
  assert.deepEqual([operation, outcome, code, bytesIn, bytesOut], ['exec', 'exited', undefined, 4, 6])
})

test('a listener may use the environment that tells it', async () => {
  const results = []
  const { environment, types } = real({}, async ({ type, runId }, environment) => {
    if (type !== 'acquired' || runId !== 'first') return
    const other = await environment.acquire({ runId: 'second' })
    await other.writeFile('f', 'x')
    await other.release({ status: 'completed' })
    results.push(await environment.sweep())
    await environment.close()
  })
  const session = await environment.acquire({ runId: 'first' })
  await eventually('it is closed', () => types().includes('closed'))
  await assert.rejects(session.list(), { code: 'RELEASED' })
  const [report] = results
  assert.ok(Object.keys(report).length >= 7)
  for (const [what, done] of Object.entries(report)) assert.deepEqual(done, [], what)
})

test('events that find the queue full are counted in the next that is told', async () => {
  const { environment, heard } = real()
  const session = await environment.acquire({ runId: 'r' })
  const calls = 3_000
  const writes = Array.from({ length: calls }, () => session.writeFile('f', 'x'))
  // The native part works on while JavaScript cannot; how long does not matter, as long as it overflows.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000)
  await Promise.all(writes)
  await session.release({ status: 'completed' })
  await environment.close()
  await eventually('it is closed', () => heard.some(({ type }) => type === 'closed'))
  const dropped = heard.reduce((sum, event) => sum + (event.dropped ?? 0), 0)
  assert.ok(dropped > 0)
  assert.equal(heard.length + dropped, calls + 3)
  assert.ok(heard.findIndex(event => event.dropped) >= 1_024)
})

test('an environment goes although its listener mentions it, and what the native part called goes with it', async () => {
  const native = require('../binding.cjs')
  const gone = { environments: 0, callbacks: 0 }
  const registry = new FinalizationRegistry(what => gone[what]++)
  const prepareEnvironment = (...args) => {
    registry.register(args[6], 'callbacks')
    return native.prepareEnvironment(...args)
  }
  const api = createApi({ ...native, prepareEnvironment })
  const heard = []
  const live = async closed => {
    const environment = api.createDockerSandboxEnvironment({
      workspace,
      transport: 'exec',
      client: api.createMemoryDockerClient(),
      onEvent: ({ type }) => heard.push([type, typeof environment.acquire]),
    })
    registry.register(environment, 'environments')
    const session = await environment.acquire({ runId: 'r' })
    await session.release({ status: 'completed' })
    if (closed) await environment.close()
  }
  const count = 50
  for (let n = 0; n < count; n++) await live(n % 2 === 0)
  // A collector may find a few of them on the stack of a thread.
  await eventually('they are collected', () => {
    collectGarbage()
    return gone.environments >= count * 0.9 && gone.callbacks >= count * 0.9
  })
  assert.equal(heard.length, count * 2.5)
})

/** Runs `support/listening.mjs` in a process of its own; resolves to how it ended. */
function listening(...args) {
  const script = fileURLToPath(new URL('./support/listening.mjs', import.meta.url))
  const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), 50_000)
  const said = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'])
    child[stream].setEncoding('utf8').on('data', text => (said[stream] += text))
  return new Promise(resolve => {
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, ...said })
    })
  })
}

test('a listener keeps no process alive, with an open session neither', async () => {
  assert.deepEqual(await listening('ends'), { code: 0, signal: null, stdout: 'acquired\n', stderr: '' })
})

// There Bun never ends the worker (1.3.7), or crashes (1.3.14); README says so.
const whereWorkersEnd = /^1\.[0-3]\./.test(process.versions.bun ?? '') ? test.skip : test

whereWorkersEnd('a worker is terminated while events fly, twenty times', async () => {
  assert.deepEqual(await listening('terminates', '20'), {
    code: 0,
    signal: null,
    stdout: 'flying\n'.repeat(20),
    stderr: '',
  })
})
