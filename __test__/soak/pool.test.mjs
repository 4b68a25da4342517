// A pool under a burst, and the pool of a host that was killed.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { runProgram } from '../support/live.mjs'
import { burst, lengthName, pool } from './support/lengths.mjs'
import { eventually, room, spread, within } from './support/room.mjs'

const { client, containers, environment, ownerId } = room()
const BURST_MS = 120_000
/** Process 1 ends itself after 60 s without a word of its host; the engine removes the container then. */
const ALONE_MS = 90_000

test(`${burst} acquires at once from a pool of ${pool}: each its own container, nothing of another`, async t => {
  const told = { pooled: 0, how: [] }
  const owner = environment({
    pool: { size: pool },
    onEvent: ({ type, how }) => {
      if (type === 'pooled') told.pooled++
      if (type === 'acquired') told.how.push(how)
    },
  })
  const first = await owner.acquire({ runId: randomUUID() })
  const held = [first]
  try {
    await eventually('the pool is full', () => told.pooled >= pool, 60_000)
    // Twice: the second burst finds a pool that is being filled.
    for (const _ of [1, 2]) {
      const names = Array.from({ length: burst }, () => randomUUID())
      const times = []
      const sessions = await within(
        BURST_MS,
        'a burst of acquires',
        Promise.all(
          names.map(async runId => {
            const begun = performance.now()
            const session = await owner.acquire({ runId })
            times.push(performance.now() - begun)
            return session
          }),
        ),
      )
      held.push(...sessions)
      const leave = name => `find . /tmp -type f -exec cat {} +; echo ${name} | tee mine >/tmp/mine`
      // A file of another run would be seen by the first of these, one that comes later by the second.
      for (const [step, seen] of [
        [leave, () => ''],
        [() => 'cat $(find . /tmp -type f)', name => `${name}\n${name}\n`],
      ]) {
        await Promise.all(
          sessions.map(async (session, i) => {
            const { stdout, stderr } = await session.exec({ command: 'sh', args: ['-c', step(names[i])] })
            assert.equal(stdout, seen(names[i]), stderr)
          }),
        )
      }
      const running = (await containers()).length
      assert.ok(running >= burst, `${running} containers for ${burst} runs`)
      t.diagnostic(`${burst} acquires in ms: ${spread(times)}`)
      await Promise.all(held.splice(0).map(session => session.release({ status: 'completed' })))
    }
    await eventually('the acquires are told', () => told.how.length === 2 * burst + 1)
    const fromPool = told.how.filter(how => how === 'pooled').length
    assert.ok(fromPool >= pool, `${fromPool} came out of the pool`)
    t.diagnostic(`${fromPool} of ${2 * burst} came out of the pool`)
  } finally {
    for (const session of held) await session.release({ status: 'failed' })
    await owner.close()
  }
  assert.deepEqual(await containers(), [])
})

// Nobody sweeps here: it goes by itself, as on a machine whose one host died and never came back.
test('the pool of a host that was killed ends by itself', { skip: lengthName === 'short' }, async t => {
  const program = `
    let pooled = 0
    const owner = api.createDockerSandboxEnvironment({ ...options, pool: { size: ${pool} },
      onEvent: ({ type }) => type === 'pooled' && ++pooled === ${pool} && console.log('full') })
    globalThis.kept = [owner, await owner.acquire({ runId: '${randomUUID()}' })]
    setInterval(() => undefined, 1000)`
  let killed
  const ended = await runProgram(ownerId, program, {
    timeoutMs: 60_000,
    started: (child, stdout) => {
      if (!stdout.includes('full') || killed) return
      killed = performance.now()
      child.kill('SIGKILL')
    },
  })
  assert.equal(ended.signal, 'SIGKILL', ended.stderr)
  assert.equal((await containers()).length, pool + 1)
  // The run's own stays until its lease ends: another process may have the lease and come for it.
  await eventually('the pool is gone', async () => (await containers()).length === 1, ALONE_MS)
  t.diagnostic(`${pool} containers ended within ${Math.round((performance.now() - killed) / 1000)} s`)
  for (const { Id } of await containers()) await client.removeContainer(Id)
})
