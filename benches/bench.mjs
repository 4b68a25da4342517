// `npm run bench`: the package beside dockerode, doing the same work on the same engine in the same run.
//
//   node benches/bench.mjs [--rounds 30] [--cpus 2]
//
// Prints a table and writes it to benches/results.md. Rounds of the two alternate, so that a machine whose speed drifts
// does so for both. SANDBOX_BENCH_SOCKET names an engine; without it a private one is started.

import { writeFileSync } from 'node:fs'
import { arch, cpus as machineCpus, release } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createDockerSandboxEnvironment } from '../index.js'
import { startEngine } from '../scripts/engine.mjs'
import { startPeer } from './peer.mjs'

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '30' }, cpus: { type: 'string', default: '2' } },
})
const rounds = Number(values.rounds)
const cpus = Number(values.cpus)
const image = process.env.SANDBOX_BENCH_IMAGE ?? 'alpine:3.21'

const engine = process.env.SANDBOX_BENCH_SOCKET
  ? { socketPath: process.env.SANDBOX_BENCH_SOCKET, stop: async () => undefined }
  : await startEngine({ images: ['busybox'] })

try {
  const rows = await measureAll()
  const text = report(rows)
  console.log(text)
  writeFileSync(fileURLToPath(new URL('results.md', import.meta.url)), text)
} finally {
  await engine.stop()
}

async function measureAll() {
  const { socketPath } = engine
  const options = { socketPath, image, workspace: { id: 'bench' }, shell: 'allow', limits: { cpus } }
  const environment = createDockerSandboxEnvironment(options)
  const run = await environment.acquire({ runId: 'bench' })
  const peer = await startPeer({ socketPath, image, cpus })
  const kilobyte = Buffer.alloc(1024, 'x')
  try {
    const fill = 'i=0; while [ $i -lt 1000 ]; do : >d/$i; i=$((i+1)); done'
    await run.exec({ command: 'sh', args: ['-c', `mkdir d; ${fill}`] })
    await peer.write('/workspace/f', kilobyte)
    await fillPeer(peer)
    await run.writeFile('f', kilobyte)
    return [
      await row('exec `/bin/true`', () => run.exec({ command: '/bin/true' }), peer.exec),
      await row(
        'read 1 KiB',
        () => run.readFile('f'),
        () => peer.read('/workspace/f'),
      ),
      await row(
        'write 1 KiB',
        () => run.writeFile('g', kilobyte),
        () => peer.write('/workspace/g', kilobyte),
      ),
      await row(
        'list 1,000 entries',
        () => run.list('d'),
        () => peer.list('/workspace/d'),
      ),
      await acquireRow(environment, peer),
    ]
  } finally {
    await run.release({ status: 'completed' })
    await peer.stop()
    await environment.close()
  }
}

async function fillPeer(peer) {
  const entries = Array.from({ length: 1000 }, (_, n) => `/workspace/d/${n}`)
  // Made by one command, as ours are.
  await peer.write('/workspace/names', Buffer.from(entries.join('\n')))
  await peer.run(['/bin/sh', '-c', 'mkdir /workspace/d; while read -r f; do : >"$f"; done </workspace/names'])
}

async function acquireRow(environment, peer) {
  const ours = []
  const theirs = []
  for (let round = 0; round < Math.min(rounds, 10); round++) {
    ours.push(
      await timed(async () => {
        const run = await environment.acquire({ runId: `acquire-${round}` })
        return () => run.release({ status: 'completed' })
      }),
    )
    theirs.push(await timed(peer.createAndStart))
  }
  return { name: 'acquire, cold (peer: create + start)', ours, theirs }
}

async function row(name, our, their) {
  // One round of each that does not count: connections, caches, the just-in-time compiler.
  await our()
  await their()
  const ours = []
  const theirs = []
  for (let round = 0; round < rounds; round++) {
    ours.push(await timed(our))
    theirs.push(await timed(their))
  }
  return { name, ours, theirs }
}

/** Milliseconds; what it returns, if a function, cleans up and is not measured. */
async function timed(work) {
  const start = performance.now()
  const cleanUp = await work()
  const took = performance.now() - start
  if (typeof cleanUp === 'function') await cleanUp()
  return took
}

function quantile(times, q) {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]
}

function report(rows) {
  const shown = rows.map(({ name, ours, theirs }) => {
    const [p50, p99, peer50, peer99] = [
      quantile(ours, 0.5),
      quantile(ours, 0.99),
      quantile(theirs, 0.5),
      quantile(theirs, 0.99),
    ].map(time => time.toFixed(1))
    return `| ${name} | ${p50} | ${p99} | ${peer50} | ${peer99} | ${(peer50 / p50).toFixed(2)} × |`
  })
  const [{ model }] = machineCpus()
  return `# Measured

\`npm run bench -- --rounds ${rounds} --cpus ${cpus}\` on ${machineCpus().length} × ${model.trim()}, Linux ${release()} ${arch()}, Node ${process.version}.
Times in milliseconds. Transport: exec. Peer: dockerode with the Engine API, the same limits, the same engine, rounds alternating.

| work | p50 | p99 | dockerode p50 | dockerode p99 | faster by |
| --- | ---: | ---: | ---: | ---: | ---: |
${shown.join('\n')}
`
}
