// How many containers of an environment an engine has to start at the same time.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { behindProxy } from '../support/engine-proxy.mjs'
import { eventually, failureOf, lab } from '../support/live.mjs'

const { containers, environment, leavesNothing } = lab()
const AT_ONCE = 8
const RUNS = 29

/** A rule for the requests that start a container. They wait at `gate`; it knows how many are under way, and how many were at most. */
function starting(gate) {
  const seen = { open: 0, most: 0, all: 0 }
  const rule = {
    method: 'POST',
    path: /\/start$/,
    before: async () => {
      seen.all++
      seen.most = Math.max(seen.most, ++seen.open)
      await gate()
    },
    after: () => void seen.open--,
  }
  return { rule, seen }
}

for (const transport of ['resident', 'exec']) {
  test(`thirty runs at once are started eight at a time, and one that waits can be cancelled [${transport}]`, async () => {
    let [gate, open] = [Promise.resolve(), () => undefined]
    const { rule, seen } = starting(() => gate)
    await behindProxy([rule], async proxy => {
      const owner = environment({ transport, socketPath: proxy.socketPath })
      const acquire = abortSignal => owner.acquire({ runId: randomUUID(), abortSignal })
      // What an environment asks only once is asked.
      const first = await acquire()
      const from = proxy.log.length
      const sent = what => proxy.log.slice(from).filter(line => what.test(line)).length
      const created = () => sent(/^POST \/containers\/create/)
      const looked = () => sent(/^GET \/images\//)

      gate = new Promise(resolve => (open = resolve))
      const acquiring = Array.from({ length: RUNS }, () => acquire())
      // A failure is told below.
      for (const one of acquiring) one.catch(() => undefined)
      await eventually('all the places are taken, and all others wait', () => {
        return seen.open === AT_ONCE && looked() === RUNS
      })
      const controller = new AbortController()
      const waiting = failureOf(acquire(controller.signal))
      await eventually('one more waits', () => looked() === RUNS + 1)
      controller.abort('enough')
      const error = await waiting
      assert.deepEqual([error.code, error.cause], ['CANCELLED', 'enough'])
      assert.deepEqual([created(), seen.open], [AT_ONCE, AT_ONCE])

      open()
      const sessions = await Promise.all(acquiring)
      assert.deepEqual([created(), seen.all, seen.most, seen.open], [RUNS, RUNS + 1, AT_ONCE, 0])
      assert.equal((await containers()).length, RUNS + 1)
      await Promise.all([first, ...sessions].map(session => session.release({ status: 'completed' })))
      await owner.close()
    })
    assert.deepEqual(await containers(), [])
  })
}

leavesNothing()
