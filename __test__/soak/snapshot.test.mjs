// A large workspace goes to a file store and comes back: the host holds little of it at any moment, and all of it is as it
// was.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createDockerSandboxEnvironment } from '../../index.js'
import { memoryHeld } from '../support/garbage.mjs'
import { sh } from '../support/live.mjs'
import { fileStores, hostOptions } from './support/hosts.mjs'
import { snapshotBytes, snapshotFiles } from './support/lengths.mjs'
import { MIB, pause, room, socketPath } from './support/room.mjs'

const { client, containers, ownerId } = room()
/** What the host may grow by meanwhile. */
const GROWTH_MIB = 16
const rss = () => Number(readFileSync('/proc/self/status', 'utf8').match(/^VmRSS:\s+(\d+) kB$/m)[1]) / 1024

/** How far the memory of this process goes above what it is now, while `work` goes on. */
async function growth(work) {
  await pause(300)
  const before = (await memoryHeld()) / MIB
  let most = before
  const sample = setInterval(() => (most = Math.max(most, rss())), 5)
  const begun = performance.now()
  try {
    await work()
  } finally {
    clearInterval(sample)
  }
  return { mib: Math.max(most, rss()) - before, ms: performance.now() - begun }
}

const fill = (files, bytes) => `
  mkdir -p d0 d1 d2 d3
  for i in $(seq ${files}); do head -c ${Math.floor(bytes / files)} /dev/urandom >d$((i % 4))/f$i; done`
const LOOK =
  'find . -type f | sort | xargs md5sum | md5sum; find . -mindepth 1 | sort | xargs stat -c "%n %a %s %Y" | md5sum; find . | wc -l'

test(`${snapshotFiles} files of ${snapshotBytes / MIB} MiB to a file store and back`, async t => {
  const { remove, stores } = fileStores()
  const owner = createDockerSandboxEnvironment({ ...hostOptions(ownerId, socketPath), ...stores })
  const lose = async () => {
    for (const { Id } of await containers()) await client.removeContainer(Id)
  }
  const runId = randomUUID()
  let session = await owner.acquire({ runId })
  const roundTrip = async measure => {
    const before = await sh(session, LOOK)
    const saved = await measure(() => session.release({ status: 'suspended' }))
    await lose()
    const restored = await measure(async () => (session = await owner.acquire({ runId })))
    assert.equal(await sh(session, LOOK), before)
    return { saved, restored, before }
  }
  try {
    await sh(session, fill(100, 8 * MIB))
    await roundTrip(work => work())
    await sh(session, `rm -r d*; ${fill(snapshotFiles, snapshotBytes)}`)
    const { saved, restored, before } = await roundTrip(growth)
    assert.ok(before.endsWith(`\n${snapshotFiles + 5}\n`), before)
    const shown = ({ mib, ms }) => `${mib.toFixed(1)} MiB of growth, ${ms.toFixed(0)} ms`
    t.diagnostic(`saved: ${shown(saved)}; restored: ${shown(restored)}`)
    assert.ok(saved.mib <= GROWTH_MIB && restored.mib <= GROWTH_MIB, `${shown(saved)}; ${shown(restored)}`)
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
    remove()
  }
})
