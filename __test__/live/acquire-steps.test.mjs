// An acquire that is aborted at each of its requests to a real engine in turn. Nothing that it made is left, what it found is
// as it was, and the next acquire works at once.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, createMemorySnapshotStore } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { lab } from '../support/live.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()

/** Each leaves a run in some state; the environment that then acquires it is another one, behind a proxy. */
const SITUATIONS = {
  'a new run': { prepare: async () => undefined, files: ['seed'] },
  'a run that waits': { prepare: wait, files: ['kept', 'seed'], kept: 1 },
  'a run whose container was lost': {
    async prepare(owner, runId) {
      await wait(owner, runId)
      for (const { Id } of await containers()) await client.removeContainer(Id)
    },
    files: ['kept', 'seed'],
  },
}

async function wait(owner, runId) {
  const session = await owner.acquire({ runId })
  await session.writeFile('kept', 'k')
  await session.release({ status: 'waiting_approval' })
}

// In two parts each, since a test should not take a minute on a busy machine.
const PARTS = Object.entries(SITUATIONS).flatMap(one => [1, 2].map(first => [...one, first]))

for (const [situation, { prepare, files, kept = 0 }, first] of PARTS) {
  test(`${situation}, aborted at each request: ${first === 1 ? 'odd' : 'even'} ones`, () => {
    let onRequest = () => undefined
    // Refuses nothing; it only sees every request.
    const rule = { path: { test: () => (onRequest(), false) } }
    return behindProxy([rule], async proxy => {
      const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
      const workspace = { files: [{ path: 'seed', contents: 's' }] }
      const direct = environment({ ...stores, workspace })
      let aborted = 0
      for (let [number, reached] = [first, true]; reached; number += 2) {
        const runId = randomUUID()
        await prepare(direct, runId)
        // Anew, so that each try asks the engine everything.
        const owner = environment({ ...stores, workspace, socketPath: proxy.socketPath })
        const [controller, reason, from] = [new AbortController(), new Error('enough'), proxy.log.length]
        onRequest = () => {
          if (proxy.log.length - from === number) controller.abort(reason)
        }
        const settled = await owner.acquire({ runId, abortSignal: controller.signal }).then(
          session => ({ session }),
          error => ({ error }),
        )
        onRequest = () => undefined
        reached = controller.signal.aborted
        const step = `request ${number}, ${proxy.log[from + number - 1]}`
        if (settled.error) {
          aborted++
          assert.deepEqual(
            [settled.error.code, settled.error.cause],
            ['CANCELLED', reason],
            `${step}: ${settled.error}`,
          )
          assert.equal((await containers()).length, kept, step)
          assert.equal((await stores.leaseStore.list(ownerId)).length, situation === 'a new run' ? 0 : 1, step)
        }
        await owner.close()
        await settled.session?.release({ status: 'suspended' })
        const session = await direct.acquire({ runId })
        assert.deepEqual(
          (await session.list()).entries.map(({ path }) => path),
          files,
          step,
        )
        await session.release({ status: 'completed' })
        assert.deepEqual([await containers(), await stores.leaseStore.list(ownerId)], [[], []], step)
      }
      await direct.close()
      assert.ok(aborted >= 1, 'none was aborted')
    })
  })
}

leavesNothing()
