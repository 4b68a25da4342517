// Processes in the background, over both transports.
import assert from 'node:assert/strict'
import { collectAll } from '../support/garbage.mjs'
import { codeOf, eventually, failureOf } from '../support/live.mjs'
import { collect, ended, isRunning, lab, lineOf, MIB, onBothTransports, runningIn, shell } from '../support/streams.mjs'

const labour = lab()
const both = (title, options, use) => onBothTransports(labour, title, options, use)
const KILLED = ended(null, 'signaled', { signal: 'SIGKILL' })
const endOf = async process => {
  const { durationMs, ...result } = await process.result
  assert.ok(durationMs >= 0)
  return result
}

both('a conversation: write, read, write, end', {}, async session => {
  const process = await session.spawn(shell('while read line; do echo "<$line>"; done; exit 5'))
  const pieces = process[Symbol.asyncIterator]()
  for (const word of ['one', 'two']) {
    await process.write(`${word}\n`)
    assert.equal(await lineOf(pieces), `<${word}>\n`)
  }
  await process.end()
  await process.end()
  assert.deepEqual(await pieces.next(), { value: undefined, done: true })
  assert.deepEqual(await endOf(process), ended(5))
  assert.equal(await codeOf(process.write('x')), 'RELEASED')
})

both('writes that nobody awaits keep their order, and the end comes behind them', {}, async session => {
  const words = Array.from({ length: 50 }, (_, n) => `${n}\n`)
  for (let time = 0; time < 4; time++) {
    const process = await session.spawn({ command: 'cat' })
    // One buffer for all of them: each write has a copy of what was in it.
    const buffer = new Uint8Array(3)
    const written = words.map(word => {
      const { written: length } = new TextEncoder().encodeInto(word, buffer)
      return process.write(buffer.subarray(0, length))
    })
    const ended = process.end()
    const late = codeOf(process.write('late'))
    buffer.fill(0)
    assert.equal((await collect(process)).stdout.toString(), words.join(''))
    await Promise.all([...written, ended])
    assert.equal(await late, 'RELEASED')
  }
})

both('writes that wait for a process that does not read settle when it is killed', {}, async session => {
  const process = await session.spawn(shell('sleep 100; :'))
  const order = []
  const note = (name, call) =>
    call.then(
      () => order.push(`${name} taken`),
      error => order.push(`${name} ${error.code}`),
    )
  const settling = [1, 2, 3, 4, 5].map(n => note(n, process.write(new Uint8Array(4 * MIB))))
  settling.push(note('end', process.end()))
  await process.kill()
  await Promise.all(settling)
  // Of the first ones some may have been on their way.
  assert.deepEqual(order.slice(-3), ['4 RELEASED', '5 RELEASED', 'end taken'])
})

both('a write to a process that has ended is refused', {}, async session => {
  const process = await session.spawn({ command: 'true' })
  await endOf(process)
  assert.equal((await collect(process)).result.exitCode, 0)
  const error = await failureOf(process.write('x'))
  assert.deepEqual([error.code, /it has ended/.test(error.message)], ['RELEASED', true])
})

both('input that was given ends with itself', {}, async session => {
  const process = await session.spawn({ command: 'cat', stdin: 'given' })
  assert.equal(await codeOf(process.write('x')), 'RELEASED')
  assert.equal((await collect(process)).stdout.toString(), 'given')
})

both('kill ends it with all that it started; what it said stays', {}, async session => {
  const process = await session.spawn(
    shell('echo said; (setsid sh -c "sleep 100; :" marker-child &); sleep 100; :', 'marker-kill'),
  )
  const pieces = process[Symbol.asyncIterator]()
  assert.equal(await lineOf(pieces), 'said\n')
  await isRunning(session, 'marker-kill', 'marker-child')
  await process.kill()
  await process.kill()
  assert.deepEqual(await endOf(process), KILLED)
  assert.deepEqual(await pieces.next(), { value: undefined, done: true })
  assert.deepEqual(await runningIn(session), [])
})

both('its signal ends it when nobody has it any more, and nothing else does', {}, async session => {
  const controller = new AbortController()
  const spawn = async (marker, more) => void (await session.spawn({ ...shell('sleep 100; :', marker), ...more }))
  await spawn('marker-open', { signal: controller.signal })
  await spawn('marker-given', { signal: controller.signal, stdin: 'x' })
  await spawn('marker-deaf')
  await collectAll()
  await isRunning(session, 'marker-open', 'marker-given', 'marker-deaf')
  controller.abort()
  await eventually('the two are gone', async () =>
    (await runningIn(session)).every(line => line.includes('marker-deaf')),
  )
  assert.notDeepEqual(await runningIn(session), [])
})

both('only timeoutMs limits it', { limits: { commandTimeoutMs: 500 } }, async session => {
  const unlimited = await session.spawn(shell('sleep 1; exit 6'))
  assert.deepEqual(await endOf(unlimited), ended(6))
  const { exitCode: _, ...limited } = await endOf(await session.spawn({ ...shell('sleep 100'), timeoutMs: 300 }))
  assert.deepEqual([limited.outcome, limited.timedOut], ['timed_out', true])
})

both(
  'all places in the background are no place to wait for',
  { limits: { maxConcurrentProcesses: 2 } },
  async session => {
    const [first, second] = [await session.spawn({ command: 'cat' }), await session.spawn({ command: 'cat' })]
    for (const third of [session.exec, session.execStream, session.spawn]) {
      const error = await failureOf(third({ command: 'true' }))
      assert.deepEqual([error.code, /maxConcurrentProcesses/.test(error.message)], ['LIMIT', true])
    }
    await first.kill()
    assert.equal((await session.exec({ command: 'true' })).exitCode, 0)
    const another = await session.spawn(shell('exit 6'))
    assert.deepEqual(await endOf(another), ended(6))
    await second.kill()
  },
)

both('release ends what runs, and tells who waits', {}, async session => {
  const process = await session.spawn(shell('echo on; sleep 100; :', 'marker-release'))
  await process[Symbol.asyncIterator]().next()
  assert.notDeepEqual(await runningIn(session), [])
  const waiting = [failureOf(process.result), failureOf(collect(process))]
  const begun = Date.now()
  await session.release({ status: 'completed' })
  assert.ok(Date.now() - begun < 5000, String(Date.now() - begun))
  for (const error of await Promise.all(waiting)) assert.equal(error.code, 'RELEASED')
  assert.equal(await codeOf(process.write('x')), 'RELEASED')
})

both('nothing in the background outlives its holder', {}, async (session, { environment, runId }) => {
  const script = 'echo kept >f; (setsid sh -c "sleep 100; :" marker-child &); sleep 100; :'
  const process = await session.spawn(shell(script, 'marker-parent'))
  await isRunning(session, 'marker-parent', 'marker-child')
  const waiting = failureOf(process.result)
  const [{ Id }] = await labour.containers()
  await session.release({ status: 'suspended' })
  assert.equal((await waiting).code, 'RELEASED')
  const again = await environment.acquire({ runId })
  try {
    // Of another container nothing would follow.
    assert.deepEqual(
      (await labour.containers()).map(found => found.Id),
      [Id],
    )
    assert.deepEqual(await runningIn(again), [])
    assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept\n')
  } finally {
    await again.release({ status: 'completed' })
  }
})

labour.leavesNothing()
