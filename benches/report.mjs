// Times and the table that they make.

import { arch, cpus as machineCpus, release } from 'node:os'

/** Milliseconds that `work` takes; what it resolves to, if a function, cleans up and is not measured. */
export async function timed(work) {
  const start = performance.now()
  const cleanUp = await work()
  const took = performance.now() - start
  if (typeof cleanUp === 'function') await cleanUp()
  return took
}

/** The value that the share `q` of the times does not pass. */
export function quantile(times, q) {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]
}

/** A Markdown page: what was run on what, a row for each work, and what else was measured, a line each. */
export function report(rows, facts, { rounds, cpus }) {
  const shown = rows.map(({ name, resident, exec, peer, floor }) => {
    const [p50, p99, exec50, peer50, peer99] = [
      quantile(resident, 0.5),
      quantile(resident, 0.99),
      exec && quantile(exec, 0.5),
      quantile(peer, 0.5),
      quantile(peer, 0.99),
    ]
    const ratio = peer50 / p50
    const ours = [p50.toFixed(2), p99.toFixed(2), floor ? quantile(floor, 0.5).toFixed(2) : '']
    const cells = [...ours, exec50?.toFixed(1) ?? '', peer50.toFixed(1), peer99.toFixed(1)]
    return `| ${name} | ${cells.join(' | ')} | ${ratio.toFixed(ratio < 10 ? 2 : 0)} × |`
  })
  const [{ model }] = machineCpus()
  return `# Measured

\`npm run bench -- --rounds ${rounds} --cpus ${cpus}\` on ${machineCpus().length} × ${model.trim()}, Linux ${release()} ${arch()}, Node ${process.version}.
Times in milliseconds. "resident" and "exec" are this package's two transports; the peer is dockerode with the Engine
API, the same limits, the same engine, rounds alternating. The ratio is dockerode's median to the resident one. "stream" is the
floor: what the engine's attached stream takes by itself to a shell in such a container and back, with nothing of this package.
The shell echoes two bytes, runs \`/bin/true\`, or takes or gives 32 MiB.

| work | resident p50 | p99 | stream p50 | exec p50 | dockerode p50 | p99 | ratio |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
${shown.join('\n')}

${facts.map(fact => `- ${fact}`).join('\n')}
`
}
