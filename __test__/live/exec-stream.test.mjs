// Commands whose output is read while they run, over both transports.
import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { memoryHeld } from '../support/garbage.mjs'
import { codeOf, eventually, failureOf } from '../support/live.mjs'
import {
  collect,
  ended,
  isRunning,
  lab,
  memoryOf,
  MIB,
  onBothTransports,
  runningIn,
  shell,
} from '../support/streams.mjs'

const labour = lab()
const both = (title, options, use) => onBothTransports(labour, title, options, use)
const KILLED = ended(null, 'signaled', { signal: 'SIGKILL' })

both('output comes apart, whole and in order, with the end', {}, async session => {
  const found = await collect(
    await session.execStream(shell('for i in 1 2 3; do echo o$i; echo e$i >&2; done; printf "\\377\\0"; exit 3')),
  )
  assert.equal(found.stdout.toString('latin1'), 'o1\no2\no3\n\xff\0')
  assert.equal(found.stderr.toString(), 'e1\ne2\ne3\n')
  assert.deepEqual(found.result, ended(3))
})

both('no output is no piece; many tiny ones are all there', {}, async session => {
  assert.equal((await collect(await session.execStream({ command: 'true' }))).stdout.length, 0)
  const tiny = await collect(
    await session.execStream(shell('i=0; while [ $i -lt 2000 ]; do printf x; i=$((i+1)); done')),
  )
  assert.equal(tiny.stdout.toString(), 'x'.repeat(2000))
})

both(
  'what cannot be started says so, and what may not be is refused at once',
  { shell: { allow: ['sh', 'no-such-program'] } },
  async session => {
    assert.equal(await codeOf(session.execStream({ command: 'ls' })), 'DENIED')
    assert.equal(await codeOf(session.execStream({ command: 'sh', cwd: '../..' })), 'PATH_INVALID')
    for (const [request, message] of [
      [{ command: 'sh', cwd: 'nowhere' }, /no such working directory/],
      [{ command: 'no-such-program' }, /command not found/],
    ]) {
      const { stderr, result } = await collect(await session.execStream(request))
      assert.deepEqual(result, ended(null, 'not_started'))
      assert.match(stderr.toString(), message)
      assert.equal((await session.exec(request)).stderr, stderr.toString())
    }
  },
)

both(
  'more than the cap of exec passes, and input is an iterable',
  { limits: { maxOutputBytes: 1024 } },
  async session => {
    async function* input() {
      yield 'grüße'
      yield new Uint8Array()
      yield new Uint8Array([0, 255])
      yield new Uint8Array(3 * MIB).fill(7)
    }
    const expected = Buffer.concat([Buffer.from('grüße'), Buffer.from([0, 255]), Buffer.alloc(3 * MIB, 7)])
    const found = await collect(await session.execStream({ command: 'cat', stdin: input() }))
    assert.ok(found.stdout.equals(expected), String(found.stdout.length))
    const { stdout } = await session.exec({ command: 'wc', args: ['-c'], stdin: input() })
    assert.equal(Number(stdout), expected.length)
  },
)

both('64 MiB through cat leave memory as it is', { limits: { commandTimeoutMs: 60_000 } }, async session => {
  const pass = async pieces => {
    async function* input() {
      for (let i = 0; i < pieces; i++) yield new Uint8Array(65_536).fill(i)
    }
    let [length, sound] = [0, true]
    const stream = await session.execStream({ command: 'cat', stdin: input() })
    for await (const { data } of stream) {
      sound &&= data[0] === (length >> 16) % 256 && data.at(-1) === ((length + data.length - 1) >> 16) % 256
      length += data.length
    }
    assert.deepEqual([length, sound, (await stream.result).exitCode], [pieces * 65_536, true, 0])
  }
  await pass(512)
  const grown = await memoryOf(() => pass(1024))
  assert.ok(grown < 16, `${grown} MiB`)
})

// It lives long enough for every buffer on the way to fill.
const DEAF = shell('sleep 3; exit 7')

both('input that nobody reads waits where it is, and does not hold up the end', {}, async session => {
  let pulled = 0
  const returned = new Set()
  async function* endless(name) {
    try {
      for (;;) {
        // A piece of its own each time, so that what is kept of them is seen.
        const piece = new Uint8Array(65_536).fill(1)
        pulled += piece.length
        yield piece
      }
    } finally {
      returned.add(name)
    }
  }
  const streamed = async () => {
    const { result } = await collect(await session.execStream({ ...DEAF, stdin: endless('stream') }))
    assert.deepEqual(result, ended(7))
  }
  const whole = async () => {
    const { durationMs, ...result } = await session.exec({ ...DEAF, stdin: endless('exec') })
    assert.deepEqual([result, durationMs >= 3000], [{ ...ended(7), stdout: '', stderr: '' }, true])
  }
  for (const [name, use] of [
    ['stream', streamed],
    ['exec', whole],
  ]) {
    pulled = 0
    const grown = await memoryOf(use)
    assert.ok(pulled > 0 && pulled < 16 * MIB, `${name}: ${pulled} bytes were pulled`)
    assert.ok(grown < 16, `${name}: ${grown} MiB`)
    await eventually(`the input of ${name} is left`, () => returned.has(name))
  }
})

both('bytes that nobody reads are kept once, and are gone with the command', {}, async session => {
  const stdin = new Uint8Array(64 * MIB).fill(1)
  const before = await memoryHeld()
  const held = async () => ((await memoryHeld()) - before) / MIB
  const stream = await session.execStream({ ...DEAF, stdin })
  const started = await held()
  const grown = await memoryOf(async () => assert.deepEqual((await collect(stream)).result, ended(7)))
  const left = await held()
  // The one copy is the product's own, since the caller may change its bytes.
  assert.ok(started < 80 && grown < 16 && left < 16, `${started} MiB, then ${grown}, at last ${left}`)
  const { exitCode } = await session.exec({ ...DEAF, stdin })
  assert.equal(exitCode, 7)
})

both('input that throws kills the command, and is what the caller gets', {}, async session => {
  async function* failing() {
    yield 'a'
    await isRunning(session, 'marker-throws')
    throw new RangeError('mine')
  }
  const command = { ...shell('cat; sleep 100; :', 'marker-throws'), stdin: failing() }
  const error = await failureOf(session.exec(command))
  assert.deepEqual([error.name, error.message], ['RangeError', 'mine'])
  const stream = await session.execStream({ ...command, stdin: failing() })
  assert.equal((await failureOf(collect(stream))).message, 'mine')
  assert.equal((await failureOf(stream.result)).message, 'mine')
  assert.deepEqual(await runningIn(session), [])
})

both(
  'input that throws as it is opened is what the caller gets, whatever else ends the command then',
  {},
  async session => {
    const unhandled = []
    const listener = error => unhandled.push(error)
    process.on('unhandledRejection', listener)
    const mine = new RangeError('mine')
    const controller = new AbortController()
    const failing = end => ({
      [Symbol.asyncIterator]() {
        end()
        throw mine
      },
    })
    for (const [method, end, signal] of [
      ['execStream', () => undefined],
      ['spawn', () => controller.abort(), controller.signal],
      ['execStream', () => void session.release({ status: 'completed' })],
    ]) {
      const stream = await session[method]({ command: 'cat', stdin: failing(end), signal })
      assert.equal(await failureOf(collect(stream)), mine)
      assert.equal(await failureOf(stream.result), mine)
    }
    process.off('unhandledRejection', listener)
    assert.deepEqual(unhandled, [])
  },
)

both(
  'input from a file that is not there is what the caller gets, though nothing was read of it yet',
  {},
  async session => {
    for (const method of ['exec', 'execStream', 'spawn']) {
      const stdin = createReadStream('/no/such/file')
      const run = async () => await collect(await session[method]({ command: 'cat', stdin }))
      assert.equal(await codeOf(run()), 'ENOENT')
    }
  },
)

both('a loop that ends early ends the command with all that it started', {}, async session => {
  const script = '(setsid sh -c "sleep 100; :" marker-child &); while :; do echo x; done'
  const stream = await session.execStream(shell(script, 'marker-parent'))
  for await (const { stream: from } of stream) {
    assert.equal(from, 'stdout')
    await isRunning(session, 'marker-parent', 'marker-child')
    break
  }
  assert.deepEqual(await runningIn(session), [])
  const { durationMs, ...result } = await stream.result
  assert.deepEqual([result, durationMs > 0], [KILLED, true])
  const silent = await session.execStream(shell('sleep 100; :', 'marker-silent'))
  await isRunning(session, 'marker-silent')
  const iterator = silent[Symbol.asyncIterator]()
  const pending = iterator.next()
  await iterator.return()
  assert.deepEqual(await pending, { value: undefined, done: true })
  assert.deepEqual(await runningIn(session), [])
  const throws = async () => {
    for await (const _ of await session.execStream(shell('cat /dev/zero; :', 'marker-thrown'))) {
      await isRunning(session, 'marker-thrown')
      throw new Error('enough')
    }
  }
  await assert.rejects(throws, /enough/)
  assert.deepEqual(await runningIn(session), [])
})

both('what is not read holds the command back, until its time limit', {}, async session => {
  const grown = await memoryOf(async () => {
    const command = shell('cat /dev/zero | tee /workspace/passed; :')
    const stream = await session.execStream({ ...command, timeoutMs: 3000 })
    const size = async () => (await session.list()).entries[0]?.size ?? 0
    await eventually('some of it passes', async () => (await size()) > 0)
    await sleep(500)
    const passed = await size()
    assert.ok(passed < 16 * MIB, String(passed))
    await sleep(200)
    assert.equal(await size(), passed)
    assert.deepEqual([(await stream.result).outcome, (await stream.result).timedOut], ['timed_out', true])
  })
  assert.ok(grown < 16, `${grown} MiB`)
})

both('the end is known although the output was not read', {}, async session => {
  const stream = await session.execStream(shell('echo late; exit 4'))
  assert.equal((await stream.result).exitCode, 4)
  assert.equal((await collect(stream)).stdout.toString(), 'late\n')
})

both('the signal cancels before, during and not after', {}, async session => {
  const reason = new Error('why')
  const before = await failureOf(session.execStream({ command: 'true', signal: AbortSignal.abort(reason) }))
  assert.deepEqual([before.code, before.cause], ['CANCELLED', reason])
  const controller = new AbortController()
  const stream = await session.execStream({ ...shell('sleep 100; :', 'marker-signal'), signal: controller.signal })
  const reading = failureOf(collect(stream))
  const result = failureOf(stream.result)
  await isRunning(session, 'marker-signal')
  controller.abort(reason)
  for (const error of [await reading, await result]) assert.deepEqual([error.code, error.cause], ['CANCELLED', reason])
  assert.deepEqual(await runningIn(session), [])
  const late = new AbortController()
  const done = await session.execStream({ command: 'echo', args: ['x'], signal: late.signal })
  await collect(done)
  late.abort()
  assert.equal((await done.result).exitCode, 0)
})

/** Scripts that end in all the ways there are, with what `exec` is asked for besides. */
const ENDS = [
  ['exit 0'],
  ['echo out; echo err >&2; exit 255'],
  ['printf "\\377a\\0é"; exit 137'],
  ['head -c 300000 /dev/zero | tr "\\0" x; printf last'],
  ['kill -TERM $$'],
  ['kill -SEGV $$'],
  ['echo on; kill -KILL $$'],
  ['echo on; sleep 100; :', { timeoutMs: 400 }],
  ['(sleep 100 &) >/dev/null 2>&1; exit 4'],
  ['cat; exit 5', { stdin: 'given' }],
  ['pwd; echo "$A"; exit 6', { cwd: 'd', env: { A: 'b' } }],
  ['exit 7', { cwd: 'nowhere' }],
]

both('a command ends the same way whether it is streamed or not', {}, async (session, { transport }) => {
  await session.writeFile('d/f', '')
  const outcomes = new Set()
  for (const [script, options] of ENDS) {
    const request = { ...shell(script), ...options }
    const { durationMs, ...whole } = await session.exec(request)
    assert.ok(durationMs >= 0)
    const { stdout, stderr, result } = await collect(await session.execStream(request))
    assert.deepEqual({ ...result, stdout: stdout.toString(), stderr: stderr.toString() }, whole, script)
    outcomes.add(whole.outcome)
  }
  const seen = ['exited', 'not_started', ...(transport === 'exec' ? [] : ['signaled']), 'timed_out']
  assert.deepEqual([...outcomes].toSorted(), seen)
})

both('eight at once are kept apart', { limits: { maxConcurrentProcesses: 8 } }, async session => {
  const one = async id => {
    const found = await collect(await session.execStream(shell('head -c 300000 /dev/zero | tr "\\0" "$1"', `${id}`)))
    assert.equal(found.stdout.toString(), String(id).repeat(300_000))
  }
  await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(one))
})

both('release ends what nobody reads', {}, async session => {
  const unread = await session.execStream({ command: 'cat', args: ['/dev/zero'] })
  const result = failureOf(unread.result)
  await sleep(50)
  const begun = Date.now()
  await session.release({ status: 'completed' })
  assert.ok(Date.now() - begun < 5000, String(Date.now() - begun))
  assert.equal((await result).code, 'RELEASED')
  assert.equal(await codeOf(collect(unread)), 'RELEASED')
  assert.equal(await codeOf(session.execStream({ command: 'true' })), 'RELEASED')
})

labour.leavesNothing()
