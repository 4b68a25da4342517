// Many sessions at once: each answer is its own run's, and nothing is left after them.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sessions } from './support/lengths.mjs'
import { room, spread } from './support/room.mjs'

const { containers, environment } = room()
const COMMANDS = 10

test(`${sessions} sessions at once, ${COMMANDS} commands each`, async t => {
  const owner = environment()
  const [acquires, commands, releases] = [[], [], []]
  const timed = async (times, work) => {
    const begun = performance.now()
    const result = await work()
    times.push(performance.now() - begun)
    return result
  }
  const names = Array.from({ length: sessions }, () => randomUUID())
  const held = await Promise.all(names.map(runId => timed(acquires, () => owner.acquire({ runId }))))
  try {
    assert.equal((await containers()).length, sessions)
    await Promise.all(
      held.map(async (session, number) => {
        await session.writeFile('name', names[number])
        await Promise.all(
          Array.from({ length: COMMANDS }, async (_, n) => {
            const script = `cat name; printf " ${number} ${n}"`
            const { stdout } = await timed(commands, () => session.exec({ command: 'sh', args: ['-c', script] }))
            assert.equal(stdout, `${names[number]} ${number} ${n}`)
          }),
        )
      }),
    )
  } finally {
    await Promise.all(held.map(session => timed(releases, () => session.release({ status: 'completed' }))))
    await owner.close()
  }
  t.diagnostic(`acquires in ms: ${spread(acquires)}; commands: ${spread(commands)}; releases: ${spread(releases)}`)
})
