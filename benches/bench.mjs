// `npm run bench`: the package beside dockerode, doing the same work on the same engine in the same run.
//
//   node benches/bench.mjs [--rounds 30] [--cpus 2]
//
// Prints a table and writes it to benches/results.md. Rounds of the three alternate, so that a machine whose speed drifts
// does so for all. SANDBOX_BENCH_SOCKET names an engine; without it a private one is started.

import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createDockerSandboxEnvironment } from '../index.js'
import { startEngine } from '../scripts/engine.mjs'
import { startPeer } from './peer.mjs'
import { chart } from './chart.mjs'
import { startFloor } from './floor.mjs'
import { acquires, snapshots } from './life.mjs'
import { many } from './many.mjs'
import { asked } from './memory.mjs'
import { quantile, report, timed } from './report.mjs'
import { addonBytes, requires } from './size.mjs'
import { MIB, STREAM_BYTES, drained, pieces } from './work.mjs'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '30' }, cpus: { type: 'string', default: '2' } },
})
const rounds = Number(values.rounds)
const cpus = Number(values.cpus)
const image = process.env.SANDBOX_BENCH_IMAGE ?? 'alpine:3.21'
// Our rounds are so short that a few of them say nothing about the slowest hundredth.
const ROUNDS_OF_OURS = 30
/** Commands of the loop without pauses, and the CPUs that a container has by default. */
const [LOOP, DEFAULT_CPUS] = [2000, 0.5]

const engine = process.env.SANDBOX_BENCH_SOCKET
  ? { socketPath: process.env.SANDBOX_BENCH_SOCKET, stop: async () => undefined }
  : await startEngine({ images: ['busybox'] })

try {
  const { rows, facts } = await measureAll()
  const text = report(rows, facts, { rounds, cpus })
  console.log(text)
  write('results.md', text + installing())
  write('results.svg', chart(rows))
} finally {
  await engine.stop()
}

/** What the page has of installing is not measured here; it stays. */
function installing() {
  const [, kept] = /(\n## Installing\n[^]*)$/.exec(readFileSync(new URL('results.md', import.meta.url), 'utf8')) ?? []
  return kept ?? ''
}

function write(name, text) {
  writeFileSync(fileURLToPath(new URL(name, import.meta.url)), text)
}

/** Options of an environment of which a container gets so much of the machine. */
function optionsOf(cpus) {
  return {
    socketPath: engine.socketPath,
    image,
    workspace: { id: 'bench' },
    shell: 'allow',
    limits: { cpus, maxFileBytes: STREAM_BYTES, maxWorkspaceBytes: 100 * MIB },
  }
}

function make(options) {
  return createDockerSandboxEnvironment({ ...optionsOf(cpus), ...options })
}

/** An environment and a run of it, over one transport. */
async function start(transport) {
  const environment = make({ transport })
  return { environment, run: await environment.acquire({ runId: randomUUID() }) }
}

async function measureAll() {
  const resident = await start('resident')
  const exec = await start('exec')
  const peer = await startPeer({ socketPath: engine.socketPath, image, cpus })
  const floor = await startFloor({ socketPath: engine.socketPath, image, cpus })
  try {
    await fill(resident.run, exec.run, peer)
    const few = { make, peer, socketPath: engine.socketPath, rounds: Math.min(rounds, 15) }
    const rows = await operations(resident.run, exec.run, peer, floor)
    rows.push(...(await acquires(few)))
    rows.push(await snapshots({ ...few, rounds: Math.min(rounds, 5) }))
    const crowd = await many(few)
    const loading = await requires(Math.min(rounds, 15))
    const [half, one] = [await tightly(DEFAULT_CPUS), await tightly(cpus)]
    const held = await memoryFacts()
    const facts = [
      `exec \`/bin/true\` ${LOOP} times without a pause, p50 / p99 / p99.9: ${one}; with the default of ${DEFAULT_CPUS} CPUs, whose quota then runs out: ${half}`,
      `${crowd.sessions} sessions at once, ${crowd.commands} commands each: ${crowd.ours.toFixed(0)} commands a second, dockerode ${crowd.theirs.toFixed(0)}: ${(crowd.ours / crowd.theirs).toFixed(0)} ×`,
      ...held,
      `\`require()\` of the packed package: ${quantile(loading, 0.5).toFixed(1)} ms (p50), ${quantile(loading, 0.99).toFixed(1)} ms (p99); the addon has ${mebibytes(addonBytes())}`,
    ]
    return { rows, facts }
  } finally {
    await Promise.all([peer.stop(), floor.stop()])
    for (const { run, environment } of [resident, exec]) {
      await run.release({ status: 'completed' })
      await environment.close()
    }
  }
}

/** Commands one after the other, as fast as they go: what a container's CPU quota makes of them. */
async function tightly(cpus) {
  const environment = createDockerSandboxEnvironment({ ...optionsOf(cpus), transport: 'resident' })
  const run = await environment.acquire({ runId: randomUUID() })
  const times = []
  for (let n = 0; n < LOOP; n++) times.push(await timed(() => run.exec({ command: '/bin/true' }).then(() => undefined)))
  await run.release({ status: 'completed' })
  await environment.close()
  return `${[0.5, 0.99, 0.999].map(share => quantile(times, share).toFixed(2)).join(' / ')} ms`
}

function mebibytes(bytes) {
  return `${(bytes / MIB).toFixed(1)} MiB`
}

/** What this package holds of memory, asked of processes of their own. */
async function memoryFacts() {
  const options = { ...optionsOf(cpus), transport: 'resident' }
  const both = ({ held, grown }) => `${mebibytes(held)} (${mebibytes(grown)})`
  const { sessions, bytes } = await asked('sessions', options)
  const [into, out, saved] = [await asked('in', options), await asked('out', options), await asked('snapshot', options)]
  return [
    `Memory of a process with ${sessions} sessions: ${(bytes / 1024).toFixed(0)} KiB for each`,
    `Memory of a process meanwhile, beyond what it had after a first time, at most (with garbage that is not collected yet): 32 MiB in ${both(into)}, 32 MiB out ${both(out)}, a snapshot of 64 MiB to a file store and its restore ${both(saved)}`,
  ]
}

async function fill(resident, exec, peer) {
  const script = 'mkdir d; i=0; while [ $i -lt 1000 ]; do : >d/$i; i=$((i+1)); done'
  for (const run of [resident, exec]) await run.exec({ command: 'sh', args: ['-c', script] })
  // Made by one command, as ours are.
  const entries = Array.from({ length: 1000 }, (_, n) => `/workspace/d/${n}`)
  await peer.write('/workspace/names', Buffer.from(entries.join('\n')))
  await peer.run(['/bin/sh', '-c', 'mkdir /workspace/d; while read -r f; do : >"$f"; done </workspace/names'])
}

async function operations(resident, exec, peer, floor) {
  const kilobyte = Buffer.alloc(1024, 'x')
  const large = Buffer.alloc(STREAM_BYTES, 'x')
  const both = (name, ours, theirs, least) =>
    row(name, { resident: () => ours(resident), exec: () => ours(exec), peer: theirs, floor: least })
  const largeRounds = Math.min(rounds, 10)
  return [
    await both('exec `/bin/true`', run => run.exec({ command: '/bin/true' }), peer.exec, floor.exec),
    await both(
      'write 1 KiB',
      run => run.writeFile('f', kilobyte),
      () => peer.write('/workspace/f', kilobyte),
      floor.roundTrip,
    ),
    await both(
      'read 1 KiB',
      run => run.readFile('f'),
      () => peer.read('/workspace/f'),
      floor.roundTrip,
    ),
    await both(
      'list 1,000 entries',
      run => run.list('d'),
      () => peer.list('/workspace/d'),
    ),
    // Over docker exec there are no streams of files.
    await row(
      '32 MiB in, as a stream',
      {
        resident: () => resident.writeFileStream('g', pieces(large)),
        exec: () => exec.writeFile('g', large),
        peer: () => peer.putTar('/workspace', 'g', large),
        floor: floor.into,
      },
      largeRounds,
    ),
    await row(
      '32 MiB out, as a stream',
      {
        resident: () => drained(resident),
        exec: () => exec.readFile('g'),
        peer: () => peer.getTar('/workspace', 'g'),
        floor: floor.out,
      },
      largeRounds,
    ),
  ]
}

/** Times of each of the works of a row; of a work that there is not, none. */
async function row(name, works, count = rounds) {
  const given = Object.entries(works).filter(([, work]) => work)
  // One round of each that does not count: connections, caches, the just-in-time compiler.
  for (const [, work] of given) await work()
  const times = Object.fromEntries(given.map(([what]) => [what, []]))
  for (let round = 0; round < count; round++) {
    for (const [what, work] of given) {
      const often = ['resident', 'floor'].includes(what) && count === rounds ? ROUNDS_OF_OURS : 1
      for (let n = 0; n < often; n++) times[what].push(await timed(work))
    }
  }
  return { name, ...times }
}
