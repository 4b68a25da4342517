// A signal ends the operation with everything that it started; the error carries the signal's reason.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxTools } from '../../index.js'
import { eventually, failureOf, lab, sh } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()
const shell = (session, script, options) => session.exec({ command: 'sh', args: ['-c', script], ...options })
const exists = async (session, path) => (await session.list()).entries.some(entry => entry.path === path)
const sleepers = session =>
  sh(
    session,
    'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline" 2>/dev/null; echo; done | grep -c "^sleep 30[2]" || :',
  ).then(Number)

onBoth('a command is ended in its middle, with all that it started', {}, async session => {
  const controller = new AbortController()
  const reason = new Error('the user went away')
  const running = failureOf(
    shell(session, 'sleep 302 & setsid sleep 302 & sleep 302; touch late', { signal: controller.signal }),
  )
  await eventually('the command begins', async () => (await sleepers(session)) === 3)
  const from = performance.now()
  controller.abort(reason)
  const error = await running
  assert.deepEqual([error.name, error.code, error.cause === reason], ['SandboxError', 'CANCELLED', true])
  assert.ok(performance.now() - from < 3_000)
  assert.equal(await sleepers(session), 0)
  assert.equal(await exists(session, 'late'), false)
})

test('a signal that fired before: nothing runs, and the reason may be anything', () =>
  inSession({}, async session => {
    for (const reason of [undefined, 'words', 0, { a: 1 }, new Error('e')]) {
      const signal = AbortSignal.abort(reason)
      const operations = [
        shell(session, 'touch ran', { signal }),
        session.readFile('f', { signal }),
        session.writeFile('ran', 'x', { signal }),
        session.list('.', { signal }),
      ]
      for (const operation of operations) {
        const error = await failureOf(operation)
        assert.deepEqual([error.code, error.cause], ['CANCELLED', signal.reason])
      }
    }
    assert.deepEqual((await session.list()).entries, [])
  }))

test("three calls end with one signal, whose onabort stays the caller's", () =>
  inSession({}, async session => {
    const controller = new AbortController()
    let called = 0
    controller.signal.onabort = () => called++
    const { onabort } = controller.signal
    const { signal } = controller
    const running = [1, 2, 3].map(n => failureOf(shell(session, `: ${n}; sleep 302`, { signal })))
    await eventually('all three begin', async () => (await sleepers(session)) === 3)
    assert.equal(signal.onabort, onabort)
    controller.abort()
    for (const error of await Promise.all(running)) {
      assert.deepEqual([error.code, error.cause], ['CANCELLED', signal.reason])
    }
    assert.deepEqual([called, signal.onabort], [1, onabort])
    assert.equal(await sleepers(session), 0)
  }))

test('many calls may share a signal', () =>
  inSession({}, async session => {
    const warnings = []
    const warned = warning => warnings.push(String(warning))
    process.on('warning', warned)
    const controller = new AbortController()
    const { signal } = controller
    await Promise.all(Array.from({ length: 25 }, () => session.list('.', { signal })))
    const running = Array.from({ length: 25 }, () =>
      failureOf(session.exec({ command: 'sleep', args: ['302'], signal })),
    )
    await new Promise(resolve => setTimeout(resolve, 200))
    controller.abort()
    for (const error of await Promise.all(running)) assert.equal(error.code, 'CANCELLED')
    process.off('warning', warned)
    assert.deepEqual(warnings, [])
  }))

test('a signal that fires afterwards changes nothing, and none of our listeners stays', () =>
  inSession({}, async session => {
    const controller = new AbortController()
    let listeners = 0
    const { signal } = controller
    const counted = new Proxy(signal, {
      get(target, key) {
        if (key === 'addEventListener') return (...args) => (listeners++, target.addEventListener(...args))
        if (key === 'removeEventListener') return (...args) => (listeners--, target.removeEventListener(...args))
        const value = Reflect.get(target, key, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    assert.equal((await shell(session, 'exit 3', { signal: counted })).exitCode, 3)
    await session.writeFile('f', 'x', { signal: counted })
    assert.equal(listeners, 0)
    controller.abort()
    assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'x')
  }))

test('file operations end in their middle, and leave no half a file', () =>
  inSession({ limits: { maxFileBytes: 16 * 2 ** 20 } }, async session => {
    await session.writeFile('f', 'old')
    for (const after of [0, 5, 15, 30, 60]) {
      const controller = new AbortController()
      const { signal } = controller
      const started = [
        session.readFile('f', { signal }),
        session.writeFile('f', new Uint8Array(16 * 2 ** 20), { signal }),
        session.list('.', { signal }),
      ]
      const settled = Promise.allSettled(started)
      await new Promise(resolve => setTimeout(resolve, after))
      controller.abort()
      for (const { status, reason } of await settled) {
        if (status === 'rejected') assert.deepEqual([reason.code, reason.cause], ['CANCELLED', signal.reason])
      }
      const { entries } = await session.list()
      assert.deepEqual(
        entries.map(({ path }) => path),
        ['f'],
        `after ${after} ms`,
      )
      assert.ok([3, 16 * 2 ** 20].includes(entries[0].size), String(entries[0].size))
    }
  }))

test('a tool call ends with the signal of its context', () =>
  inSession({}, async session => {
    const tools = createDockerSandboxTools()
    const controller = new AbortController()
    const context = { executionEnvironment: session, abortSignal: controller.signal }
    const running = failureOf(tools.sandbox_exec.execute({ command: 'sh', args: ['-c', 'sleep 302'] }, context))
    await eventually('the command begins', async () => (await sleepers(session)) === 1)
    controller.abort('stop')
    const error = await running
    assert.deepEqual([error.code, error.cause], ['CANCELLED', 'stop'])
    assert.equal(await sleepers(session), 0)
  }))

test('waiting for a place among the commands is ended too', () =>
  inSession({ limits: { maxConcurrentProcesses: 1 } }, async session => {
    const controller = new AbortController()
    const first = shell(session, 'touch begun; sleep 1; exit 4')
    await eventually('the first begins', () => exists(session, 'begun'))
    const second = failureOf(shell(session, 'touch second', { signal: controller.signal }))
    controller.abort()
    assert.equal((await second).code, 'CANCELLED')
    assert.equal((await first).exitCode, 4)
    assert.equal(await exists(session, 'second'), false)
  }))

leavesNothing()
