// Memory and descriptors of both ends: of this process, and of process 1 of a container, seen from outside.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { memoryHeld } from '../../support/garbage.mjs'
import { MIB, pause } from './room.mjs'

/** How often memory is looked at while something goes on. */
const SAMPLE_MS = 50

/**
 * Growth of this process's memory that is no leak: V8's heap after a collection and the allocator's arenas differ by some
 * MiB from one look to the next. Ten thousand operations that leaked 2 KiB each would be beyond it.
 */
const HOST_RESTING_MIB = 20
/** While something streams: the windows of its channel, what waits in JavaScript, and garbage that is not collected yet. */
const HOST_WORKING_MIB = 96
/** What process 1 needs is allocated at its start. A page for each of 256 operations would be 1 MiB. */
const INSIDE_MIB = 1

const rss = pid => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+) kB$/m)[1]) / 1024
const descriptors = pid => readdirSync(`/proc/${pid}/fd`).length

async function look(inside) {
  // Connections to the engine that nobody needs any more are closed a little later.
  await pause(300)
  return {
    host: (await memoryHeld()) / MIB,
    inside: rss(inside),
    hostFds: descriptors('self'),
    insideFds: descriptors(inside),
  }
}

/**
 * Does `work` a first time, small, so that everything is warm, then whole, and looks at both ends before, meanwhile and after.
 * `inside` is the pid of process 1 on this machine. Fails where they grew; says the figures.
 */
export async function flat(t, what, inside, warmUp, work) {
  await warmUp()
  const before = await look(inside)
  const most = { ...before }
  const sample = setInterval(() => {
    const now = { host: rss('self'), inside: rss(inside), hostFds: descriptors('self'), insideFds: descriptors(inside) }
    for (const name of Object.keys(most)) most[name] = Math.max(most[name], now[name])
  }, SAMPLE_MS)
  const begun = performance.now()
  try {
    await work()
  } finally {
    clearInterval(sample)
  }
  const seconds = (performance.now() - begun) / 1000
  const after = await look(inside)
  const row = (name, unit) =>
    `${[before, most, after].map(found => found[name].toFixed(unit ? 1 : 0)).join(' / ')}${unit}`
  t.diagnostic(`${what}: ${seconds.toFixed(1)} s; before / most / after:`)
  t.diagnostic(`  host ${row('host', ' MiB')}, descriptors ${row('hostFds', '')}`)
  t.diagnostic(`  process 1 ${row('inside', ' MiB')}, descriptors ${row('insideFds', '')}`)
  assert.ok(after.host - before.host < HOST_RESTING_MIB, `${what}: the host grew`)
  assert.ok(most.host - before.host < HOST_WORKING_MIB, `${what}: the host grew meanwhile`)
  assert.ok(most.inside - before.inside < INSIDE_MIB, `${what}: process 1 grew`)
  assert.ok(after.hostFds <= before.hostFds, `${what}: descriptors of the host are left`)
  assert.equal(after.insideFds, before.insideFds, `${what}: descriptors of process 1 are left`)
  return seconds
}
export { MIB }
