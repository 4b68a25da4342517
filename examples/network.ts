// A sandbox that may reach one host and nothing else. So that it runs without the Internet, the host is a TLS server of this
// process with a certificate authority of its own, and the name is looked up by a function of this process.
//
//   bun examples/network.ts
//
// SANDBOX_IMAGE:   an image with curl (default: curlimages/curl)
// SANDBOX_SOCKET:  the engine's socket
// Needs openssl on this machine, to make the certificates.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDockerSandboxEnvironment } from '../index.js'

const HOST = 'api.example.test'
const NEW_KEY = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
const { SANDBOX_IMAGE = 'curlimages/curl', SANDBOX_SOCKET } = process.env

/** An authority, and a certificate for the host that it signed. */
function certificates() {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-network-example-'))
  const file = (name: string) => join(folder, name)
  const openssl = (words: string) => execFileSync('openssl', words.split(' '), { cwd: folder, stdio: 'pipe' })
  try {
    openssl(`req -x509 ${NEW_KEY} -days 1 -subj /CN=example-authority -keyout ca.key -out ca.pem`)
    openssl(`req ${NEW_KEY} -subj /CN=${HOST} -keyout key.pem -out request.pem`)
    writeFileSync(file('names'), `subjectAltName=DNS:${HOST}\n`)
    openssl('x509 -req -days 1 -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out cert.pem')
    const [ca, cert, key] = ['ca.pem', 'cert.pem', 'key.pem'].map(name => readFileSync(file(name), 'utf8'))
    return { ca, cert, key }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const { ca, cert, key } = certificates()
const server = createServer({ cert, key }, (_request, response) => response.end('hello from the allowed host\n'))
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo

const decisions: string[] = []
let allTold = () => {}
const told = new Promise<void>(resolve => (allTold = resolve))

const environment = createDockerSandboxEnvironment({
  image: SANDBOX_IMAGE,
  ...(SANDBOX_SOCKET ? { socketPath: SANDBOX_SOCKET } : {}),
  workspace: { id: 'example', files: [{ path: 'ca.pem', contents: ca ?? '' }] },
  shell: { allow: ['curl'] },
  network: {
    mode: 'allowlist',
    allowedDomains: [HOST],
    allowedPorts: [port],
    // The server of this example is on this machine. A public host needs neither this nor the next one.
    allowPrivateNetworks: true,
    quotas: { maxNetworkRequests: 10 },
  },
  resolveHost: name => (name === HOST ? ['127.0.0.1'] : []),
  onEvent(event) {
    if (event.type === 'network_allowed') decisions.push(`allowed ${event.host}, by the rule ${event.rule}`)
    if (event.type === 'network_refused') decisions.push(`refused ${event.host ?? 'a request'}: ${event.reason}`)
    // A run's last event.
    if (event.type === 'released') allTold()
  },
})

const run = await environment.acquire({ runId: 'network-example' })
try {
  for (const args of [
    [`https://${HOST}:${port}/`],
    [`https://other.example.test:${port}/`],
    ['--noproxy', '*', `https://127.0.0.1:${port}/`],
  ]) {
    console.log(`curl ${args.join(' ').replace(String(port), 'PORT')}`)
    const result = await run.exec({ command: 'curl', args: ['-sS', '--cacert', 'ca.pem', ...args] })
    console.log(`  exit ${result.exitCode}${result.stdout ? `: ${result.stdout.trim()}` : ''}`)
  }
} finally {
  await run.release({ status: 'completed' })
  await told
  console.log(['The proxy', ...decisions].join('\n  '))
  await environment.close()
  server.closeAllConnections()
  server.close()
}
