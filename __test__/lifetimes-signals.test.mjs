// A caller's signal and the process or stream that it ends: the signal is heard as long as anything of that is left, and keeps
// nothing of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { allCollected, collectAll } from './support/garbage.mjs'
import { failureOf } from './support/stores.mjs'

const COUNT = 50

/** Runs `use` in a session over the in-memory engine. */
async function inSession(use) {
  const client = createMemoryDockerClient()
  const environment = createDockerSandboxEnvironment({ workspace: { id: 'w' }, shell: 'allow', client })
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
