import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { failure, fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

async function sessionOf(overrides) {
  const { binding, calls } = fakeBinding(overrides)
  const environment = createApi(binding).createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  return { session: await environment.acquire({ runId: 'r' }), environment, calls }
}

/** A real signal that counts its listeners. */
function countingSignal() {
  const controller = new AbortController()
  const { signal } = controller
  const counts = { added: 0, live: 0 }
  const { addEventListener, removeEventListener } = EventTarget.prototype
  signal.addEventListener = (type, listener, options) => {
    counts.added++
    counts.live++
    assert.deepEqual([type, options], ['abort', { once: true }])
    addEventListener.call(signal, type, listener, options)
  }
  signal.removeEventListener = (type, listener) => {
    counts.live--
    removeEventListener.call(signal, type, listener)
  }
  return { controller, signal, counts }
}

/** Answers when its token is cancelled, as the core does. */
const untilCancelled = (...args) =>
  new Promise(resolve => args.at(-1).listeners.push(() => resolve(failure('CANCELLED', 'stopped'))))

test('a signal that is aborted already cancels before the native call', async () => {
  const { session, environment, calls } = await sessionOf()
  const reason = new Error('not today')
  const signal = AbortSignal.abort(reason)
  calls.length = 0
  for (const call of [
    () => session.readFile('a', { signal }),
    () => session.writeFile('a', 'x', { signal }),
    () => session.list('.', { signal }),
    () => session.exec({ command: 'echo', signal }),
    () => environment.acquire({ runId: 'r', abortSignal: signal }),
    () => environment.sweep({ signal }),
  ]) {
    await assert.rejects(call, error => error.code === 'CANCELLED' && error.cause === reason)
  }
  assert.deepEqual(calls, [])
})

test('a signal that aborts later cancels the token and becomes the cause', async () => {
  const { session } = await sessionOf({ exec: untilCancelled })
  const { controller, signal, counts } = countingSignal()
  const pending = session.exec({ command: 'sleep', args: ['9'], signal })
  controller.abort('my reason')
  await assert.rejects(pending, { code: 'CANCELLED', message: 'stopped', cause: 'my reason' })
  assert.deepEqual(counts, { added: 1, live: 0 })
})

test('a cancellation that is not the signal’s has no cause', async () => {
  const { session } = await sessionOf({ exec: () => failure('CANCELLED', 'the session ended') })
  await assert.rejects(session.exec({ command: 'a', signal: new AbortController().signal }), error => {
    assert.equal(error.code, 'CANCELLED')
    return !('cause' in error)
  })
})

test('onabort stays the caller’s', async () => {
  const { session } = await sessionOf({ exec: untilCancelled })
  const controller = new AbortController()
  let fired = 0
  const mine = () => fired++
  controller.signal.onabort = mine
  const pending = session.exec({ command: 'sleep', signal: controller.signal })
  assert.equal(controller.signal.onabort, mine)
  controller.abort()
  await assert.rejects(pending, { code: 'CANCELLED' })
  assert.equal(fired, 1)
})

test('10,000 calls on one signal, failed ones too, share listeners and leave none', async () => {
  let nth = 0
  const { session } = await sessionOf({ list: () => (++nth % 2 ? failure('NOT_FOUND') : failure('TIMEOUT')) })
  const { signal, counts } = countingSignal()
  for (let batch = 0; batch < 100; batch++) {
    const results = await Promise.allSettled(Array.from({ length: 100 }, () => session.list('.', { signal })))
    assert.ok(results.every(result => result.status === 'rejected'))
  }
  // One for the hundred calls that are under way at the same time.
  assert.deepEqual(counts, { added: 100, live: 0 })
})

test('processes in the background share a listener, which is gone when of each the end was seen', async () => {
  const ways = {
    result: process => process.result,
    kill: process => process.kill(),
    output: async process => {
      for await (const { data } of process) assert.ok(data)
    },
    leaving: process => process[Symbol.asyncIterator]().return(),
    failing: process => assert.rejects(process.result, { code: 'TIMEOUT' }),
  }
  for (const [way, end] of Object.entries(ways)) {
    const { session, calls } = await sessionOf(way === 'failing' ? { 'process.result': () => failure('TIMEOUT') } : {})
    const { signal, counts } = countingSignal()
    const spawn = () => session.spawn({ command: 'sleep', signal })
    const [first, second] = [await spawn(), await spawn()]
    await end(first)
    await end(first)
    assert.deepEqual(counts, { added: 1, live: 1 }, way)
    await end(second)
    assert.deepEqual(counts, { added: 1, live: 0 }, way)
    await end(await spawn())
    assert.deepEqual(counts, { added: 2, live: 0 }, way)
    // However many are never looked at.
    const made = () => calls.filter(([name]) => name === 'CancelToken').length
    const before = made()
    for (let n = 0; n < 100; n++) await spawn()
    assert.deepEqual([made() - before, counts.live], [1, 1], way)
  }
})

test('a process that could not be started leaves no listener', async () => {
  const { session } = await sessionOf({ start: () => failure('LIMIT') })
  const { signal, counts } = countingSignal()
  await assert.rejects(session.spawn({ command: 'sleep', signal }), { code: 'LIMIT' })
  assert.deepEqual(counts, { added: 1, live: 0 })
})

test('a native call that throws leaves no listener either', async () => {
  const { session } = await sessionOf({
    list: () => {
      throw new Error('bug')
    },
  })
  const { signal, counts } = countingSignal()
  await assert.rejects(session.list('.', { signal }), { code: 'INTERNAL' })
  assert.deepEqual(counts, { added: 1, live: 0 })
})

test('what is no signal is named', async () => {
  const { session, environment } = await sessionOf()
  for (const signal of [null, {}, 'abort', { aborted: false }, new AbortController()]) {
    await assert.rejects(session.list('.', { signal }), { code: 'CONFIG_INVALID' })
    await assert.rejects(environment.acquire({ runId: 'r', abortSignal: signal }), { code: 'CONFIG_INVALID' })
  }
})
