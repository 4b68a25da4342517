// `npm run bench`: the package beside dockerode, doing the same work on the same engine in the same run.
//
//   node benches/bench.mjs [--rounds 30] [--cpus 2]
//
// Prints a table and writes it to benches/results.md. Rounds of the three alternate, so that a machine whose speed drifts
// does so for all. SANDBOX_BENCH_SOCKET names an engine; without it a private one is started.

import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createDockerSandboxEnvironment } from '../index.js'
import { startEngine } from '../scripts/engine.mjs'
import { startPeer } from './peer.mjs'
import { report, timed } from './report.mjs'

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
  const rows = await measureAll()
  const text = report(rows, { rounds, cpus })
  console.log(text)
  writeFileSync(fileURLToPath(new URL('results.md', import.meta.url)), text)
} finally {
  await engine.stop()
}

/** An environment and a run of it, over one transport. */
async function start(transport) {
  const environment = createDockerSandboxEnvironment({
    socketPath: engine.socketPath,
    image,
    transport,
    workspace: { id: 'bench' },
    shell: 'allow',
    limits: { cpus, maxFileBytes: 32 * MIB, maxWorkspaceBytes: 100 * MIB },
  })
  return { environment, run: await environment.acquire({ runId: `bench-${transport}` }) }
}

async function measureAll() {
  const resident = await start('resident')
  const exec = await start('exec')
  const peer = await startPeer({ socketPath: engine.socketPath, image, cpus })
  try {
    await fill(resident.run, exec.run, peer)
    return [...(await operations(resident.run, exec.run, peer)), await acquires(resident, exec, peer)]
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
  const both = (name, ours, theirs, few) =>
    row(
      name,
      () => ours(resident),
      () => ours(exec),
      theirs,
      few,
    )
  const large_ = Math.min(rounds, 10)
  return [
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
    await both(
      '32 MiB in',
      run => run.writeFile('g', large),
      () => peer.putTar('/workspace', 'g', large),
      large_,
    ),
    await both(
      '32 MiB out',
      run => run.readFile('g'),
      () => peer.getTar('/workspace', 'g'),
      large_,
    ),
  ]
}

async function acquires(resident, exec, peer) {
  const acquire =
    ({ environment }, round) =>
    async () => {
      const run = await environment.acquire({ runId: `acquire-${round}` })
      return () => run.release({ status: 'completed' })
    }
  const times = { resident: [], exec: [], peer: [] }
  for (let round = 0; round < Math.min(rounds, 15); round++) {
    times.resident.push(await timed(acquire(resident, round)))
    times.exec.push(await timed(acquire(exec, round)))
    times.peer.push(await timed(peer.createAndStart))
  }
  return { name: 'acquire, cold (peer: create + start)', ...times }
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
