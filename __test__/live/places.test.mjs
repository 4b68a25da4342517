// The places of `limits.maxConcurrentProcesses`: who waits for one, who is refused, and when one is free again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failureOf, lab, transport } from '../support/live.mjs'

const { inSession, leavesNothing } = lab()
const script = text => ({ command: 'sh', args: ['-c', text] })

test('a command that has ended leaves its place, read or not', { skip: transport === 'exec' }, () =>
  inSession({ limits: { maxConcurrentProcesses: 2 } }, async session => {
    const streams = []
    for (let n = 0; n < 2; n++) {
      const stream = await session.execStream(script('head -c 200000 /dev/zero; exit 3'))
      assert.equal((await stream.result).exitCode, 3)
      streams.push(stream)
    }
    const background = await session.spawn(script('head -c 200000 /dev/zero; exit 4'))
    assert.equal((await background.result).exitCode, 4)
    assert.equal((await session.exec({ command: 'true' })).exitCode, 0)
    let bytes = 0
    for (const output of [...streams, background]) for await (const { data } of output) bytes += data.length
    assert.equal(bytes, 600_000)
  }),
)

test('what waits for a place that a process takes for good is refused, with what to do', () =>
  inSession({ limits: { maxConcurrentProcesses: 1 } }, async session => {
    const first = await session.spawn({ command: 'cat' })
    const waiting = [
      session.spawn({ command: 'cat' }),
      session.exec({ command: 'true' }),
      session.execStream({ command: 'true' }),
    ].map(one => failureOf(one))
    for (const { code, message } of await Promise.all(waiting)) {
      assert.deepEqual([code, /Kill one/.test(message)], ['LIMIT', true], message)
    }
    await first.kill()
    const command = session.exec(script('while [ ! -e go ]; do sleep 0.05; done'))
    const next = session.spawn({ command: 'cat' })
    const other = session.exec({ command: 'true' })
    const settled = other.then(
      ({ exitCode }) => exitCode,
      ({ code }) => code,
    )
    await session.writeFile('go', '')
    assert.equal((await command).exitCode, 0)
    const server = await next
    // Before the process it ran, behind it it is refused.
    assert.ok([0, 'LIMIT'].includes(await settled), await settled)
    await server.kill()
    assert.equal((await session.exec({ command: 'true' })).exitCode, 0)
  }))

test('however many are allowed, those that are too many wait', { skip: transport === 'exec' }, () =>
  inSession({ limits: { maxConcurrentProcesses: 100, pids: 256 } }, async session => {
    const commands = Array.from({ length: 100 }, () => session.exec(script('sleep 0.2')))
    // Which find room beside them.
    await session.writeFile('f', 'x')
    const ends = (await Promise.all(commands)).map(({ outcome }) => outcome)
    assert.deepEqual([...new Set(ends)], ['exited'])
  }),
)

leavesNothing()
