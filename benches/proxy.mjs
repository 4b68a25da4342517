// Throughput of one tunnel, and tunnels a second, through the allowlist proxy, tinyproxy and squid, one after the other on
// this machine.
//
//   npm run bench:proxy [-- --bytes N --rounds N]
//
// Builds what it measures. Prints medians; memory is the most that the process held.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort, listens } from '../scripts/lib/ports.mjs'
import { must } from '../scripts/lib/run.mjs'
import { findOnPath, missingOf } from '../scripts/lib/tools.mjs'

const { values } = parseArgs({
  options: { bytes: { type: 'string', default: String(2 ** 30) }, rounds: { type: 'string', default: '5' } },
})
/** Debian packages with the peers. They are not installed from here: on most machines that starts their services. */
const PEERS = { 'tinyproxy-bin': () => findOnPath('tinyproxy'), squid: () => findOnPath('squid') }
const program = new URL('../target/release/examples/proxy_tunnel', import.meta.url).pathname
/** Tunnels that are opened one after the other. */
const SETUPS = 1000
const folder = mkdtempSync(join(tmpdir(), 'proxy-bench-'))
const proxies = { ours, tinyproxy, squid }

const missing = missingOf(PEERS)
if (missing.length > 0) {
  console.error(`Install what this is measured beside, Debian packages: ${missing.join(' ')}`)
  process.exit(1)
}
const example = ['build', '--release', '--no-default-features', '--features', 'host', '--example', 'proxy_tunnel']
await must('building the proxy', 'cargo', example)

try {
  const runs = Object.fromEntries(Object.keys(proxies).map(name => [name, []]))
  // Round by round, so that what else the machine does falls on all alike.
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, start] of Object.entries(proxies)) runs[name].push(await measure(start))
  }
  report(runs)
} finally {
  rmSync(folder, { recursive: true })
}

async function measure(start) {
  const origin = await freePort()
  const { child, port, host } = await start(origin)
  try {
    const args = ['load', port, host, origin, values.bytes, child.pid].map(String)
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(`the load failed: ${stderr}`)
    const [seconds, cpu] = stdout.trim().split(' ').map(Number)
    // Behind the other one: its connections are not in the throughput's CPU time.
    const setups = await opened(port, host, origin)
    const memory = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) / 1024
    return { seconds, cpu, memory, setups }
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

async function opened(port, host, origin) {
  const args = ['setups', port, host, origin, SETUPS].map(String)
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`opening tunnels failed: ${stderr}`)
  return Number(stdout)
}

async function ours(origin) {
  const child = spawn(program, ['serve', String(origin)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  return { child, port: Number(line), host: 'origin.example' }
}

function tinyproxy() {
  const config = port =>
    `Port ${port}\nListen 127.0.0.1\nAllow 127.0.0.1\nMaxClients 100\nTimeout 600\nLogLevel Error\n`
  return configured('tinyproxy', config, file => ['-d', '-c', file])
}

function squid() {
  const config = port =>
    `http_port 127.0.0.1:${port}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log /dev/null\n` +
    `pid_filename none\ncoredump_dir ${folder}\nshutdown_lifetime 0 seconds\n`
  return configured('squid', config, file => ['-N', '-f', file])
}

async function configured(name, config, args) {
  const port = await freePort()
  const file = join(folder, `${name}.conf`)
  writeFileSync(file, config(port))
  const child = spawn(name, args(file), { stdio: 'ignore' })
  child.on('error', () => {
    console.error(`${name} could not be started`)
    process.exit(1)
  })
  while (!(await listens(port))) await new Promise(resolve => setTimeout(resolve, 50))
  return { child, port, host: '127.0.0.1' }
}

function report(runs) {
  const mib = Number(values.bytes) / 2 ** 20
  console.log(`${mib} MiB through one tunnel, median of ${values.rounds}`)
  for (const [name, all] of Object.entries(runs)) {
    const keys = ['seconds', 'cpu', 'memory', 'setups']
    const [seconds, cpu, memory, setups] = keys.map(key => median(all.map(run => run[key])))
    const figures = [
      `${(mib / seconds).toFixed(0)} MiB/s`,
      `${cpu.toFixed(2)} s CPU`,
      `${(mib / cpu).toFixed(0)} MiB per CPU second`,
      `${memory.toFixed(1)} MiB memory`,
      `${setups.toFixed(0)} tunnels/s`,
    ]
    console.log(`${name.padEnd(10)} ${figures.join('   ')}`)
  }
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]
}
