// What the tests of the network allowlist share: servers on this machine, and a resolver that leads names to them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NEW_KEY, openssl } from './certificates.mjs'

/** A server that is closed at the end of `use`, with its port. */
export async function serving(server, use) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    return await use(server.address().port)
  } finally {
    server.closeAllConnections?.()
    await new Promise(resolve => server.close(resolve))
  }
}

/** An HTTP server that answers every request with `hello from HOST`, and has the `requests` that came and its `connections`. */
export function webServer(answer = (request, response) => response.end(`hello from ${request.headers.host}\n`)) {
  const requests = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    answer(request, response)
  })
  const connections = new Set()
  server.on('connection', socket => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket)).on('error', () => undefined)
  })
  return Object.assign(server, { requests, connections })
}

/** Options of an environment that may reach `good.test` on these ports of this machine, and what is asked of its resolver. */
export function reaching(ports, { names = {}, events = [], ...network } = {}) {
  const asked = []
  return {
    asked,
    events,
    options: {
      network: {
        mode: 'allowlist',
        allowedDomains: ['good.test'],
        allowedPorts: ports,
        allowPrivateNetworks: true,
        ...network,
      },
      onEvent: event => events.push(event),
      resolveHost(host) {
        asked.push(host)
        const found = names[host] ?? ['127.0.0.1']
        return typeof found === 'function' ? found(asked.filter(other => other === host).length) : found
      },
    },
  }
}

const ORIGIN = fileURLToPath(new URL('origin.py', import.meta.url))

/**
 * Runs `use` beside a TLS server that is `good.test`, with a certificate of its own, files, a repository and a package
 * index. It gets the port and the certificate, which clients have to trust.
 */
export async function withTlsOrigin(use) {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-origin-'))
  const [key, cert] = ['key.pem', 'cert.pem'].map(name => join(folder, name))
  const subject = '-days 2 -subj /CN=good.test -addext subjectAltName=DNS:good.test'.split(' ')
  openssl('req', '-x509', ...NEW_KEY, ...subject, '-keyout', key, '-out', cert)
  const origin = spawn('python3', [ORIGIN, folder], { stdio: ['pipe', 'pipe', 'inherit'] })
  try {
    const [line] = await once(origin.stdout.setEncoding('utf8'), 'data')
    return await use(Number(line), readFileSync(cert, 'utf8'))
  } finally {
    origin.stdin.end()
    await once(origin, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}
