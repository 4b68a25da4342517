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
import { acquires, snapshots } from './life.mjs'
import { many } from './many.mjs'
import { memory, quantile, report, timed } from './report.mjs'
import { addonBytes, requires } from './size.mjs'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '30' }, cpus: { type: 'string', default: '2' } },
})
const rounds = Number(values.rounds)
const cpus = Number(values.cpus)
const image = process.env.SANDBOX_BENCH_IMAGE ?? 'alpine:3.21'
const MIB = 2 ** 20
// Our rounds are so short that a few of them say nothing about the slowest hundredth.
const ROUNDS_OF_OURS = 30

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

function make(options) {
  return createDockerSandboxEnvironment({
    socketPath: engine.socketPath,
    image,
    workspace: { id: 'bench' },
    shell: 'allow',
    limits: { cpus, maxFileBytes: 32 * MIB, maxWorkspaceBytes: 100 * MIB },
    ...options,
  })
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
  try {
    await fill(resident.run, exec.run, peer)
    const few = { make, peer, socketPath: engine.socketPath, rounds: Math.min(rounds, 15) }
    const { rows, grown, held } = await operations(resident.run, exec.run, peer)
    rows.push(...(await acquires(few)))
    const [saved, snapshotGrown] = await snapshots({ ...few, rounds: Math.min(rounds, 5) })
    rows.push(saved)
    const crowd = await many(few)
    const loading = requires(Math.min(rounds, 15))
    const mebibytes = bytes => `${(bytes / MIB).toFixed(1)} MiB`
    const facts = [
      `${crowd.sessions} sessions at once, ${crowd.commands} commands each: ${crowd.ours.toFixed(0)} commands a second, dockerode ${crowd.theirs.toFixed(0)}: ${(crowd.ours / crowd.theirs).toFixed(0)} ×; ${(crowd.bytes / 1024).toFixed(0)} KiB of this process for each session`,
      `32 MiB as a stream: this process held ${mebibytes(held.in)} in, ${mebibytes(held.out)} out at most; with what the collector had not come to, it grew by ${mebibytes(grown.in)} and ${mebibytes(grown.out)}`,
      `A snapshot and its restore: this process grew by ${mebibytes(snapshotGrown)} at most`,
      `\`require()\`: ${quantile(loading, 0.5).toFixed(1)} ms (p50), ${quantile(loading, 0.99).toFixed(1)} ms (p99); the addon has ${mebibytes(addonBytes())}`,
    ]
    return { rows, facts }
  } finally {
    await peer.stop()
    for (const { run, environment } of [resident, exec]) {
      await run.release({ status: 'completed' })
      await environment.close()
    }
  }
}

async function fill(resident, exec, peer) {
  const script = 'mkdir d; i=0; while [ $i -lt 1000 ]; do : >d/$i; i=$((i+1)); done'
  for (const run of [resident, exec]) await run.exec({ command: 'sh', args: ['-c', script] })
  // Made by one command, as ours are.
  const entries = Array.from({ length: 1000 }, (_, n) => `/workspace/d/${n}`)
  await peer.write('/workspace/names', Buffer.from(entries.join('\n')))
  await peer.run(['/bin/sh', '-c', 'mkdir /workspace/d; while read -r f; do : >"$f"; done </workspace/names'])
}

async function operations(resident, exec, peer) {
  const kilobyte = Buffer.alloc(1024, 'x')
  const large = Buffer.alloc(32 * MIB, 'x')
  const both = (name, ours, theirs) =>
    row(
      name,
      () => ours(resident),
      () => ours(exec),
      theirs,
    )
  const largeRounds = Math.min(rounds, 10)
  const grown = { in: 0, out: 0 }
  const rehearsed = new Set()
  // The first one does not count here either: what the process then takes once it keeps.
  const growing = async (way, work) => {
    const before = memory()
    const most = watchMemory()
    await work()
    if (rehearsed.has(way)) grown[way] = Math.max(grown[way], most() - before)
    rehearsed.add(way)
  }
  const rows = [
    await both('exec `/bin/true`', run => run.exec({ command: '/bin/true' }), peer.exec),
    await both(
      'write 1 KiB',
      run => run.writeFile('f', kilobyte),
      () => peer.write('/workspace/f', kilobyte),
    ),
    await both(
      'read 1 KiB',
      run => run.readFile('f'),
      () => peer.read('/workspace/f'),
    ),
    await both(
      'list 1,000 entries',
      run => run.list('d'),
      () => peer.list('/workspace/d'),
    ),
    // Over docker exec there are no streams of files.
    await row(
      '32 MiB in, as a stream',
      () => growing('in', () => resident.writeFileStream('g', pieces(large))),
      () => exec.writeFile('g', large),
      () => peer.putTar('/workspace', 'g', large),
      largeRounds,
    ),
    await row(
      '32 MiB out, as a stream',
      () => growing('out', () => drained(resident)),
      () => exec.readFile('g'),
      () => peer.getTar('/workspace', 'g'),
      largeRounds,
    ),
  ]
  // Outside the times, since collecting takes some: what is held, without what the collector has not come to.
  const held = {
    in: await holding(() => resident.writeFileStream('g', pieces(large))),
    out: await holding(() => drained(resident)),
  }
  return { rows, grown, held }
}

/** The most memory that this process has more while it does `work` than before, collected twenty times a second. */
async function holding(work) {
  const before = memory()
  let most = 0
  const timer = setInterval(() => {
    globalThis.gc()
    // Buffers are freed in a later turn of the event loop.
    setImmediate(() => (most = Math.max(most, process.memoryUsage.rss())))
  }, 50)
  for (let round = 0; round < 5; round++) await work()
  clearInterval(timer)
  return Math.max(0, most - before)
}

/** The most memory that this process has until it is asked. */
function watchMemory() {
  let most = 0
  const look = () => (most = Math.max(most, process.memoryUsage.rss()))
  const timer = setInterval(look, 5)
  return () => {
    clearInterval(timer)
    look()
    return most
  }
}

async function* pieces(bytes) {
  for (let at = 0; at < bytes.length; at += 64 * 1024) yield bytes.subarray(at, at + 64 * 1024)
}

async function drained(run) {
  let count = 0
  for await (const piece of await run.readFileStream('g')) count += piece.length
  if (count !== 32 * MIB) throw new Error(`${count} bytes came`)
}

async function row(name, resident, exec, peer, count = rounds) {
  // One round of each that does not count: connections, caches, the just-in-time compiler.
  for (const work of [resident, exec, peer]) await work()
  const times = { resident: [], exec: [], peer: [] }
  for (let round = 0; round < count; round++) {
    for (let ours = 0; ours < (count < rounds ? 1 : ROUNDS_OF_OURS); ours++) times.resident.push(await timed(resident))
    times.exec.push(await timed(exec))
    times.peer.push(await timed(peer))
  }
  return { name, ...times }
}
