// A caller's signal and the process or stream that it ends: the signal is heard as long as anything of that is left, and keeps
// nothing of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { allCollected, collectAll } from './support/garbage.mjs'
import { failureOf } from './support/stores.mjs'
import { eventually } from './support/wait.mjs'

const COUNT = 50

/** Runs `use` in a session over the in-memory engine. */
async function inSession(use, options = {}) {
  const client = createMemoryDockerClient()
  const environment = createDockerSandboxEnvironment({ workspace: { id: 'w' }, shell: 'allow', client, ...options })
  const session = await environment.acquire({ runId: 'r' })
  await use(session)
  await session.release({ status: 'completed' })
}

for (const [what, take] of Object.entries({
  'the iterator': process => ({ ended: process[Symbol.asyncIterator]().next() }),
  'the result': ({ result }) => ({ ended: result }),
})) {
  test(`a signal ends a process of which only ${what} is left`, () =>
    inSession(async session => {
      const controller = new AbortController()
      const { signal } = controller
      const spawn = async () => take(await session.spawn({ command: 'sleep', args: ['9'], signal }))
      const failed = failureOf((await spawn()).ended)
      await collectAll()
      const reason = new Error('enough')
      controller.abort(reason)
      const error = await failed
      assert.deepEqual([error.code, error.cause], ['CANCELLED', reason])
    }))
}

test('a signal ends processes of which nothing is left', () =>
  inSession(
    async session => {
      const controller = new AbortController()
      const { signal } = controller
      const spawn = async args => void (await session.spawn({ command: 'sleep', args, signal }))
      for (const seconds of ['100', '101']) await spawn([seconds])
      // One that has ended takes nothing with it.
      await (await session.spawn({ command: 'true', signal })).result.catch(() => undefined)
      await collectAll()
      const run = () => session.exec({ command: 'true' }).catch(({ code }) => code)
      const third = await session.spawn({ command: 'sleep', args: ['100'] })
      assert.equal(await run(), 'LIMIT')
      controller.abort()
      await eventually('their places are free', async () => (await run()) !== 'LIMIT')
      await third.kill()
    },
    { limits: { maxConcurrentProcesses: 3 } },
  ))

for (const read of [true, false]) {
  test(`a signal whose listener mentions a stream does not keep one that ${read ? 'was read' : 'nobody reads'}`, () =>
    inSession(session =>
      allCollected(COUNT, async watch => {
        const controller = new AbortController()
        const stream = await session.execStream({ command: 'echo', signal: controller.signal })
        controller.signal.addEventListener('abort', () => String(stream.result))
        watch('streams', stream)
        if (read) for await (const { data } of stream) assert.ok(data)
      }),
    ))
}
