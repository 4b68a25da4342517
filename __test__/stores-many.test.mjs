// A hundred thousand calls of what the application wrote, its stores and its listener, hold no memory, nor do the pieces that a
// snapshot store gives, which take longer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryDockerClient } from '../index.js'
import { memoryHeld } from './support/garbage.mjs'
import { Leases, environment } from './support/stores.mjs'

const MIB = 2 ** 20
const CALLS = 100_000
const PIECES = 30_000
const ROUNDS = 10
/** What is held for each call grows in every round by more than this: 52 bytes a call, 175 a piece. */
const GROWTH = MIB / 2
const AT_ONCE = 100

/**
 * Makes calls in rounds, after one that warms up. What a process needs more of for once (compiled code, a heap's next size) is in
 * one round or two; what it holds of calls, in each.
 */
async function inRounds(calls, count, call) {
  const held = []
  for (let round = 0; round <= ROUNDS; round++) {
    const end = count() + calls / ROUNDS
    while (count() < end) await call()
    held.push(await memoryHeld())
  }
  const grown = held.slice(1).map((bytes, round) => bytes - held[round])
  assert.ok(Math.min(...grown) < GROWTH, `MiB more in each round: ${grown.map(bytes => (bytes / MIB).toFixed(1))}`)
}

test('a hundred thousand calls of a lease store and a listener hold nothing', { timeout: 300_000 }, async () => {
  const counts = { loads: 0, events: 0 }
  const leaseStore = new Leases()
  const load = leaseStore.load.bind(leaseStore)
  leaseStore.load = key => {
    counts.loads++
    leaseStore.calls = []
    return load(key)
  }
  const owner = environment({ leaseStore, onEvent: () => counts.events++ })
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('f', 'x')
  const read = () => session.readFile('f', { limit: 1 })
  await inRounds(
    CALLS,
    () => counts.loads + counts.events,
    () => Promise.all(Array.from({ length: AT_ONCE }, read)),
  )
  assert.ok(Math.min(counts.loads, counts.events) > CALLS / 3, JSON.stringify(counts))
  await session.release({ status: 'completed' })
  await owner.close()
})

test('the pieces of a snapshot store hold nothing', { timeout: 300_000 }, async () => {
  const [client, kept] = [createMemoryDockerClient(), { loads: 0, pieces: 0 }]
  const snapshotStore = {
    async load() {
      kept.loads++
      return kept.tar && { meta: kept.meta, tar: counted(kept.tar) }
    },
    async save(_key, meta, tar) {
      const pieces = []
      for await (const piece of tar) pieces.push(piece)
      Object.assign(kept, { meta, tar: Buffer.concat(pieces) })
    },
    remove: async () => undefined,
  }
  async function* counted(tar) {
    for (let at = 0; at < tar.length; at += 64) {
      kept.pieces++
      yield tar.subarray(at, at + 64)
    }
  }
  const owner = environment({ client, snapshotStore })
  const session = await owner.acquire({ runId: 'r' })
  await session.writeFile('f', new Uint8Array(600_000))
  await session.release({ status: 'suspended' })
  const restored = async () => {
    for (const { Id } of await client.listContainers('zhivex.sandbox=1')) await client.removeContainer(Id)
    await (await owner.acquire({ runId: 'r' })).release({ status: 'suspended' })
  }
  await inRounds(PIECES, () => kept.pieces, restored)
  await (await owner.acquire({ runId: 'r' })).release({ status: 'completed' })
  await owner.close()
})
