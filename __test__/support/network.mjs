// What the tests of the network allowlist share: servers on this machine, and a resolver that leads names to them.
import { createServer } from 'node:http'
import { once } from 'node:events'

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
