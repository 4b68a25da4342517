// The JavaScript half of streams, over a fake binding.
import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { failure, fakeBinding } from './support/fake-binding.mjs'

const { createApi } = createRequire(import.meta.url)('../js/create.cjs')

async function start(overrides) {
  const { binding, calls } = fakeBinding(overrides)
  const api = createApi(binding)
  const session = await api.createDockerSandboxEnvironment({ workspace: { id: 'w' } }).acquire({ runId: 'r' })
  calls.length = 0
  return { session, api, calls, named: name => calls.filter(([called]) => called === name) }
}

const text = pieces => pieces.map(({ stream, data }) => `${stream}:${Buffer.from(data)}`)
const all = async stream => {
  const found = []
  for await (const item of stream) found.push(item)
  return found
}

test('batches become pieces, once; the result is asked for when it is looked at', async () => {
  const { session, calls, named } = await start()
  const stream = await session.execStream({ command: 'x', args: ['y'], stdin: 'in' })
  assert.deepEqual(calls[0].slice(0, 3), ['start', '{"command":"x","args":["y"]}', false])
  assert.deepEqual([Buffer.from(calls[0][3]).toString(), calls[0][4], calls[0][5]], ['in', undefined, undefined])
  assert.deepEqual(text(await all(stream)), ['stdout:a', 'stderr:b', 'stdout:c'])
  assert.deepEqual(await all(stream), [])
  assert.deepEqual([named('process.result').length, named('process.stop').length], [0, 0])
  const ended = { exitCode: 0, outcome: 'exited', truncated: false, timedOut: false, durationMs: 1.5 }
  assert.deepEqual(await stream.result, ended)
  assert.equal(stream.result, stream.result)
  assert.equal(named('process.result').length, 1)
})

test('break, throw and return stop the command, also while a piece is awaited', async () => {
  for (const leave of [
    async stream => {
      for await (const _ of stream) break
    },
    async stream => {
      await assert.rejects(async () => {
        for await (const _ of stream) throw new Error('enough')
      }, /enough/)
    },
    stream => stream[Symbol.asyncIterator]().return(),
  ]) {
    const { session, named } = await start()
    const stream = await session.execStream({ command: 'x' })
    await leave(stream)
    assert.equal(named('process.stop').length, 1)
    assert.deepEqual(await all(stream), [])
  }
  let close
  const silent = () => new Promise(resolve => (close = resolve))
  const { session } = await start({ 'process.next': silent, 'process.stop': () => (close(null), null) })
  const iterator = (await session.execStream({ command: 'x' }))[Symbol.asyncIterator]()
  const pending = iterator.next()
  await iterator.return()
  assert.deepEqual(await pending, { value: undefined, done: true })
})

test('failures are typed in the loop and in the result, and a result that nobody awaits is no unhandled rejection', async () => {
  const lost = () => failure('CONTAINER_LOST')
  const { session } = await start({ 'process.next': lost, 'process.result': lost })
  const stream = await session.execStream({ command: 'x' })
  const unhandled = []
  const listener = error => unhandled.push(error)
  process.on('unhandledRejection', listener)
  void stream.result
  await new Promise(resolve => setTimeout(resolve, 10))
  process.off('unhandledRejection', listener)
  assert.deepEqual(unhandled, [])
  await assert.rejects(all(stream), { code: 'CONTAINER_LOST' })
  await assert.rejects(stream.result, { code: 'CONTAINER_LOST' })
})

test('a signal is listened to until the end, and its reason is the cause', async () => {
  const controller = new AbortController()
  const { session, calls } = await start({ 'process.next': () => failure('CANCELLED') })
  const stream = await session.execStream({ command: 'x', signal: controller.signal })
  const token = calls.find(([name]) => name === 'start')[5]
  controller.abort('why')
  assert.equal(token.cancelled, true)
  await assert.rejects(all(stream), { code: 'CANCELLED', cause: 'why' })
  const late = new AbortController()
  const done = await start()
  await all(await done.session.execStream({ command: 'x', signal: late.signal }))
  late.abort()
  assert.equal(done.calls.find(([name]) => name === 'start')[5].cancelled, false)
})

test('input from an iterable goes piece by piece and is ended; without stdin only spawn has one', async () => {
  const { session, named } = await start()
  const input = ['a', '', new Uint8Array([0])]
  await all(await session.execStream({ command: 'x', stdin: input }))
  await new Promise(resolve => setTimeout(resolve, 10))
  assert.ok(named('input.write').length <= 2)
  const spawned = await session.spawn({ command: 'x' })
  assert.equal(named('start')[1][2], true)
  await spawned.write('b')
  await spawned.end()
  await spawned.kill()
  assert.deepEqual(Buffer.from(named('input.write').at(-1)[1]).toString(), 'b')
  assert.deepEqual([named('input.end').length >= 1, named('process.stop').length], [true, 1])
  const given = await session.spawn({ command: 'x', stdin: 'in' })
  await assert.rejects(given.write('b'), { code: 'RELEASED' })
  await assert.rejects(spawned.write(5), { code: 'CONFIG_INVALID' })
})

test('calls of an input are made in their order, each behind the one before, whatever becomes of that', async () => {
  const answers = []
  const { session, named } = await start({ 'input.write': () => new Promise(resolve => answers.push(resolve)) })
  const spawned = await session.spawn({ command: 'x' })
  const bytes = new Uint8Array([1])
  const settled = []
  const note = (name, call) =>
    call.then(
      () => settled.push(name),
      error => settled.push(`${name} ${error.code}`),
    )
  const calls = [note('first', spawned.write(bytes))]
  // The first need not wait.
  assert.equal(named('input.write').length, 1)
  bytes[0] = 2
  calls.push(note('second', spawned.write(bytes)), note('wrong', spawned.write(5)), note('end', spawned.end()))
  bytes[0] = 3
  await new Promise(setImmediate)
  assert.deepEqual([settled.splice(0), named('input.write').length], [['wrong CONFIG_INVALID'], 1])
  answers[0](failure('LIMIT'))
  await new Promise(setImmediate)
  assert.deepEqual([settled.splice(0), named('input.write').map(([, [byte]]) => byte)], [['first LIMIT'], [1, 2]])
  assert.equal(named('input.end').length, 0)
  answers[1](null)
  await Promise.all(calls)
  assert.deepEqual([settled, named('input.end').length], [['second', 'end'], 1])
})

test('an iterable that throws as it is opened is no unhandled rejection, however the command ends', async () => {
  const mine = new Error('mine')
  const stdin = {
    [Symbol.asyncIterator]() {
      throw mine
    },
  }
  const { session } = await start({ 'process.result': () => failure('CANCELLED'), exec: () => failure('CANCELLED') })
  const unhandled = []
  const listener = error => unhandled.push(error)
  process.on('unhandledRejection', listener)
  for (const method of ['execStream', 'spawn']) {
    await assert.rejects(all(await session[method]({ command: 'x', stdin })), error => error === mine)
  }
  await assert.rejects(session.exec({ command: 'x', stdin }), error => error === mine)
  await assert.rejects(session.writeFileStream('f', stdin), error => error === mine)
  await new Promise(setImmediate)
  process.off('unhandledRejection', listener)
  assert.deepEqual(unhandled, [])
})

test('what an operation that does not begin was given to read is closed', async () => {
  const refused = () => failure('LIMIT')
  const { session, api } = await start({ start: refused, writeFileStream: refused, putArchiveStream: refused })
  const client = api.createMemoryDockerClient()
  const signal = AbortSignal.abort()
  for (const [code, use] of [
    ['LIMIT', stdin => session.execStream({ command: 'x', stdin })],
    ['LIMIT', stdin => session.spawn({ command: 'x', stdin })],
    ['LIMIT', contents => session.writeFileStream('f', contents)],
    ['LIMIT', tar => client.putArchive('c1', '/w', tar)],
    ['CANCELLED', stdin => session.exec({ command: 'x', stdin, signal })],
    ['CANCELLED', stdin => session.execStream({ command: 'x', stdin, signal })],
    ['CANCELLED', stdin => session.spawn({ command: 'x', stdin, signal })],
    ['CANCELLED', contents => session.writeFileStream('f', contents, { signal })],
  ]) {
    const file = createReadStream(new URL(import.meta.url))
    await assert.rejects(use(file), { code })
    assert.equal(file.destroyed, true, String(use))
    const source = giving({ done: true })
    await assert.rejects(use(source), { code })
    assert.equal(source.left, 1, String(use))
  }
})

/** An iterable whose iterator's `next` gives this, and whether it was left. */
const giving = step => {
  const source = { left: 0 }
  source[Symbol.asyncIterator] = () => ({ next: async () => step, return: async () => void source.left++ })
  return source
}

test('an iterator whose next gives no object is refused with what it gave, and left', async () => {
  const steps = [
    [undefined, 'undefined'],
    [null, 'null'],
    [0, '0'],
    ['secret', 'a string of 6 characters'],
    [Symbol('s'), 'a symbol'],
  ]
  for (const [step, described] of steps) {
    const refused = async (name, call) => {
      const source = giving(step)
      const message = `The result of next() of the iterator of ${name} was ${described}; it must be an object with done and value.`
      await assert.rejects(call(source), { name: 'SandboxError', code: 'CONFIG_INVALID', message })
      assert.equal(source.left, 1, name)
    }
    let stop
    const stopped = new Promise(resolve => (stop = () => resolve(null)))
    const { session, api } = await start({
      exec: (_json, _bytes, _pipe, token) =>
        new Promise(resolve => token.listeners.push(() => resolve(failure('CANCELLED')))),
      'process.next': () => stopped,
      'process.result': () => stopped.then(() => failure('CANCELLED')),
      'process.stop': () => (stop(), stopped),
    })
    const client = api.createMemoryDockerClient()
    await refused('exec stdin', stdin => session.exec({ command: 'x', stdin }))
    await refused('execStream stdin', async stdin => await all(await session.execStream({ command: 'x', stdin })))
    await refused('spawn stdin', async stdin => (await session.spawn({ command: 'x', stdin })).result)
    await refused('the contents for writeFileStream', contents => session.writeFileStream('f', contents))
    await refused('the archive', tar => client.putArchive('c1', '/w', tar))
  }
})

test('what is no iterator is refused, whatever it is', async () => {
  const { session } = await start()
  for (const [made, message] of [
    [undefined, /^The iterator of the contents for writeFileStream was undefined; it must be an object with/],
    [{}, /^next of the iterator of the contents for writeFileStream was undefined; it must be a method/],
  ]) {
    for (const key of [Symbol.asyncIterator, Symbol.iterator]) {
      const contents = { [key]: () => made }
      await assert.rejects(session.writeFileStream('f', contents), { code: 'CONFIG_INVALID', message })
    }
  }
})

test('an iterable that is not async may give promises, and ends with a step that has no more than done', async () => {
  const { session } = await start()
  const pieces = [Promise.resolve(new Uint8Array(1)), new Uint8Array(2)]
  assert.equal((await session.writeFileStream('f', pieces)).size, 3)
  const done = { [Symbol.iterator]: () => ({ next: () => ({ done: true }) }) }
  assert.equal((await session.writeFileStream('f', done)).size, 0)
})

test('an iterable that throws is what the caller of exec gets; one that the command outlives is left', async () => {
  const mine = new RangeError('mine')
  const { session, calls } = await start({
    exec: (_json, _bytes, _pipe, token) =>
      new Promise(resolve => token.listeners.push(() => resolve(failure('CANCELLED')))),
  })
  const failing = (async function* () {
    yield 'a'
    throw mine
  })()
  await assert.rejects(session.exec({ command: 'x', stdin: failing }), error => error === mine)
  assert.equal(calls.filter(([name]) => name === 'input.end').length, 0)
  let left = false
  const stuck = {
    [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined), return: async () => (left = true) }),
  }
  const other = await start()
  assert.equal((await other.session.exec({ command: 'echo', stdin: stuck })).exitCode, 0)
  assert.equal(left, true)
})

test('files go out and in piece by piece', async () => {
  const { session, named } = await start()
  const pieces = [new Uint8Array([1]), new Uint8Array(), new Uint8Array([2, 3])]
  assert.deepEqual(await session.writeFileStream('f', pieces, { mode: 0o600 }), { path: 'f', size: 3 })
  assert.deepEqual(named('writeFileStream')[0].slice(1, 3), ['f', 0o600])
  const file = await session.readFileStream('f')
  assert.deepEqual([file.path, file.size, file.mode], ['f', 3, 0o644])
  assert.deepEqual(Buffer.concat(await all(file)), Buffer.from([1, 2, 3]))
  await assert.rejects(session.readFileStream('g'), { code: 'NOT_FOUND' })
  await assert.rejects(session.readFileStream('f', { encoding: 'utf8' }), { code: 'CONFIG_INVALID' })
})

test('a file whose source throws or is refused is cancelled, and the source left', async () => {
  const { session, named } = await start()
  const mine = new Error('mine')
  const failing = (async function* () {
    yield new Uint8Array(1)
    throw mine
  })()
  await assert.rejects(session.writeFileStream('f', failing), error => error === mine)
  assert.equal(named('writeFileStream')[0][3].cancelled, true)
  await assert.rejects(session.readFileStream('f'), { code: 'NOT_FOUND' })
  let left = false
  const endless = (async function* () {
    try {
      for (;;) yield new Uint8Array(1)
    } finally {
      left = true
    }
  })()
  const full = await start({ 'file.push': () => false, 'file.room': () => failure('LIMIT') })
  await assert.rejects(full.session.writeFileStream('f', endless), { code: 'LIMIT' })
  assert.equal(left, true)
  for (const wrong of ['text', new Uint8Array(1), 5, null, {}]) {
    await assert.rejects(session.writeFileStream('f', wrong), { code: 'CONFIG_INVALID' })
  }
  await assert.rejects(session.writeFileStream('f', ['text']), { code: 'CONFIG_INVALID' })
})
