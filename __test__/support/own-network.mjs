// A program for a network namespace of its own (`unshare --net`), where it is a host with an engine that manages iptables and
// forwards, as most do, and the Internet is on the other end of a cable: whatever leaves a container arrives there. Prints
// what did.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { startEngine } from '../../scripts/engine.mjs'
import { DNS, ELSEWHERE, HTTPS, KNOCK, LINK, ip, join, own } from './elsewhere.mjs'

/** Addresses of this host: one that only the host has a use for, and one of the Internet. */
const [NEARBY, PUBLIC] = ['10.1.2.3', '9.9.9.9']

/** Every way out at once, in BusyBox's words. ICMP is answered by a kernel, so that whoever asked has to say it. */
const ways = ELSEWHERE.flatMap(address => [
  `nc -w 2 ${address} ${HTTPS} </dev/null >/dev/null`,
  `nc -w 2 ${address} ${DNS} </dev/null >/dev/null`,
  `timeout 3 nslookup secret.test ${address} >/dev/null`,
  `ping -c 1 -W 1 ${address} >/dev/null && echo "icmp ${address}"`,
])
const script = `exec 2>/dev/null; ${ways.map(way => `{ ${way}; } &`).join(' ')} wait`

const world = spawn('unshare', ['--net', process.execPath, fileURLToPath(new URL('elsewhere.mjs', import.meta.url))], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
let arrived = []
const lines = createInterface({ input: world.stdout })
lines.on('line', line => arrived.push(line))
const arrival = async wanted => {
  while (!arrived.includes(wanted)) await once(lines, 'line')
}

/** What `from` sends out, by what arrives and by what it says itself. */
async function outOf(from) {
  arrived = []
  const said = await from()
  connect(KNOCK, LINK.world.address)
    .on('error', () => {})
    .resume()
  const knock = `tcp ${LINK.world.address} ${KNOCK}`
  await arrival(knock)
  return [...new Set([...arrived.filter(line => line !== knock), ...said.split('\n').filter(Boolean)])].toSorted()
}

ip('link', 'set', 'lo', 'up')
// unshare(1) becomes the program, so its pid is the namespace's.
ip('link', 'add', LINK.host.name, 'type', 'veth')
ip('link', 'set', LINK.world.name, 'netns', String(world.pid))
join(LINK.host)
ip('route', 'add', 'default', 'via', LINK.world.address)
for (const address of [NEARBY, PUBLIC]) own(address, 'lo')
world.stdin.write('\n')
await arrival('ready')
writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')
const { socketPath, stop } = await startEngine({ images: ['busybox'], args: ['--iptables=true', '--ip-masq=true'] })
process.env.SANDBOX_TEST_SOCKET = socketPath
const { BUSYBOX, engine, lab } = await import('./live.mjs')
const { client, inSession } = lab()

/** From a container of the engine's default network, which is not internal. */
async function fromAnotherContainer() {
  const container = { Image: BUSYBOX, Cmd: ['sleep', '600'], HostConfig: { NetworkMode: 'default' } }
  const { Id } = await engine('POST', '/containers/create', container)
  await engine('POST', `/containers/${Id}/start`)
  const run = { cmd: ['sh', '-c', script], user: '0:0', workingDir: '/', timeoutMs: 120_000, maxOutputBytes: 65_536 }
  const { stdout } = await client.exec(Id, run)
  await engine('DELETE', `/containers/${Id}?force=1&v=1`)
  return new TextDecoder().decode(stdout)
}

const runs = (transport, use) =>
  inSession({ transport, network: { mode: 'allowlist', allowedDomains: ['good.test'] } }, session =>
    use(async text => (await session.exec({ command: 'sh', args: ['-c', text], timeoutMs: 120_000 })).stdout),
  )

/** What listens on one address of this host alone, tried from a run. */
const nearby = (transport, port) => runs(transport, run => run(`nc -w 2 ${NEARBY} ${port} </dev/null`))

/** An allowed name that leads to an address of the Internet that is this host's. */
async function ownAddress(port, allowPrivateNetworks) {
  const network = { mode: 'allowlist', allowedDomains: ['good.test'], allowedPorts: [port], allowPrivateNetworks }
  return inSession({ transport: 'resident', network, resolveHost: () => [PUBLIC] }, async session => {
    const ask = `printf 'CONNECT good.test:${port} HTTP/1.1\\r\\nHost: good.test:${port}\\r\\n\\r\\n' | nc 127.0.0.1 3128`
    return (await session.exec({ command: 'sh', args: ['-c', ask] })).stdout
  })
}

try {
  const servers = [NEARBY, PUBLIC].map(address =>
    createServer(socket => socket.on('error', () => {}).end('OUT\n')).listen(0, address),
  )
  await Promise.all(servers.map(server => once(server, 'listening')))
  const [nearbyPort, publicPort] = servers.map(server => server.address().port)
  const found = {
    anotherContainer: await outOf(fromAnotherContainer),
    exec: await outOf(() => runs('exec', run => run(script))),
    resident: await outOf(() => runs('resident', run => run(script))),
    nearby: { exec: await nearby('exec', nearbyPort), resident: await nearby('resident', nearbyPort) },
    ownAddress: await ownAddress(publicPort, false),
    ownAddressAllowed: await ownAddress(publicPort, true),
  }
  console.log(JSON.stringify(found, undefined, 1))
} finally {
  world.kill()
  await stop()
}
process.exit(0)
