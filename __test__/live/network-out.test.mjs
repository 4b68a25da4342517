// Every way out of a container but the proxy fails (group C of the known faults: C15, C17, C19, C27, C28, C30, C31).
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { CLIENTS, engine, lab, sh, transport } from '../support/live.mjs'
import { reaching, serving, webServer } from '../support/network.mjs'

const { environment, inSession, leavesNothing } = lab()

/**
 * Tries one thing and prints how it ended. A time-out is a failure too, but none that a user should wait for: what has no
 * route is refused by the kernel.
 */
const PROBE = `
import socket, sys, os
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
try:
  if kind == 'icmp':
    s = socket.socket(family, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6 if ':' in address else socket.IPPROTO_ICMP)
  else:
    s = socket.socket(family, socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
  s.settimeout(3 if kind == 'tcp' else 1)
  s.connect((address, port))
  if kind != 'tcp':
    s.send(b'\\x08\\x00\\xf7\\xff\\x00\\x00\\x00\\x00' if kind == 'icmp' else b'hello')
    s.recv(100)
  print('OUT')
except OSError as error:
  print(error.strerror or type(error).__name__)
`

const probe = async (session, kind, address, port = 1) => {
  const result = await session.exec({ command: 'python3', args: ['-c', PROBE, kind, address, String(port)] })
  assert.equal(result.exitCode, 0, result.stderr)
  return result.stdout.trim()
}

const inClients = (options, use) =>
  inSession(
    {
      ...options,
      image: CLIENTS,
      limits: { memoryMb: 512, pids: 256, maxConcurrentProcesses: 16, commandTimeoutMs: 60_000 },
    },
    use,
  )

/** The address of the engine's end of the run's own network; with the resident transport there is none. */
const gatewayOf = async session => {
  const proxy = (await sh(session, 'echo $HTTP_PROXY')).trim()
  return new URL(proxy).hostname
}

test('C28: no address is reached beside the proxy, by TCP, UDP or ICMP, IPv4 or IPv6', async () => {
  const { options } = reaching([443])
  await inClients(options, async session => {
    const ways = [
      ['tcp', '1.1.1.1', 443],
      ['tcp', '192.0.2.1', 80],
      ['udp', '1.1.1.1', 53],
      ['tcp', '1.1.1.1', 53],
      ['udp', '1.1.1.1', 443],
      ['tcp', '169.254.169.254', 80],
      ['tcp', '2606:4700:4700::1111', 443],
      ['udp', '2606:4700:4700::1111', 53],
      ['tcp', 'fd00:ec2::254', 80],
      ['icmp', '1.1.1.1'],
      ['icmp', '2606:4700:4700::1111'],
      ['udp', '224.0.0.251', 5353],
      ['udp', '255.255.255.255', 67],
    ]
    const each = async ([kind, address, port]) => {
      const said = await probe(session, kind, address, port)
      assert.notEqual(said, 'OUT', `${kind} ${address}`)
      // With a network of its own, what is sent to others is dropped on the way.
      const how = /unreachable|denied|not supported|assign|not permitted/i
      assert.match(said, transport === 'exec' ? /./ : how, `${kind} ${address}: ${said}`)
    }
    await Promise.all(ways.map(each))
  })
})

test('C28: what listens on this host is reached with the exec transport at most', async () => {
  // On every address of this host; the kernel gives the port.
  const listener = createServer(socket => socket.end()).listen(0, '0.0.0.0')
  await once(listener, 'listening')
  const { port } = listener.address()
  const datagrams = createSocket('udp4').bind(port, '0.0.0.0')
  let came = 0
  datagrams.on('message', () => came++)
  await once(datagrams, 'listening')
  const addresses = Object.values(networkInterfaces())
    .flat()
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map(({ address }) => address)
  try {
    const { options } = reaching([443])
    await inClients(options, async session => {
      const gateway = await gatewayOf(session)
      // What listens on all addresses of the host listens on the run's gateway too: the exec transport's documented limit.
      for (const address of [gateway, ...addresses]) {
        const said = await probe(session, 'tcp', address, port)
        assert.equal(said === 'OUT', transport === 'exec', `${address}: ${said}`)
        came = 0
        await probe(session, 'udp', address, port)
        assert.equal(came, transport === 'exec' ? 1 : 0, `UDP to ${address}`)
      }
      assert.notEqual(await probe(session, 'icmp', gateway === '127.0.0.1' ? '10.0.0.1' : gateway), 'OUT')
    })
  } finally {
    listener.close()
    datagrams.close()
  }
})

test('C30: names are not resolved in the container, and the host is not asked for them', async () => {
  const name = `secret-${randomUUID()}.test`
  const { options, asked } = reaching([443])
  await inClients(options, async session => {
    const script = `import socket
try: print(socket.getaddrinfo(${JSON.stringify(name)}, 443))
except OSError as error: print('no')`
    const result = await session.exec({ command: 'python3', args: ['-c', script], timeoutMs: 60_000 })
    assert.equal(result.stdout.trim(), 'no', JSON.stringify(result))
    const ask = async server => {
      const lookup = `import socket,sys
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(3)
q=b'\\x12\\x34\\x01\\x00\\x00\\x01'+b'\\x00'*6+b''.join(bytes([len(l)])+l for l in b'${name}'.split(b'.'))+b'\\x00\\x00\\x01\\x00\\x01'
try:
  s.connect(('${server}',53)); s.send(q); r=s.recv(512); print('answer', r[3]&15, r[7])
except OSError as error: print(type(error).__name__)`
      const said = (await session.exec({ command: 'python3', args: ['-c', lookup] })).stdout.trim()
      // An engine's own resolver may say that it cannot, and never more.
      assert.doesNotMatch(said, /^answer 0 [1-9]/, `${server}: ${said}`)
    }
    await Promise.all(['127.0.0.11', '127.0.0.53', '8.8.8.8'].map(ask))
  })
  assert.deepEqual(asked, [])
})

test(
  'C30: where the host resolves by a server of its own, that is not asked either',
  { skip: transport !== 'exec' },
  async () => {
    // Whoever the engine's resolver forwards to for this container is the container's own loopback.
    const { options } = reaching([443])
    await inSession(options, async session => {
      const { Id } = (await engine('GET', '/containers/json')).find(({ Names }) =>
        Names.some(name => name.includes('zhivex')),
      )
      const { HostConfig } = await engine('GET', `/containers/${Id}/json`)
      assert.deepEqual(HostConfig.Dns, ['127.0.0.1'])
      assert.ok(session)
    })
  },
)

test("C27: another run's proxy is not reached", async () => {
  const server = webServer()
  await serving(server, async port => {
    const theirs = environment(reaching([port], { allowedDomains: ['theirs.test'] }).options)
    const other = await theirs.acquire({ runId: randomUUID() })
    try {
      const [host, proxyPort] = (await sh(other, 'echo ${HTTP_PROXY#http://}')).trim().split(':')
      const { options } = reaching([port])
      await inClients(options, async session => {
        const proxy = transport === 'exec' ? `http://${host}:${proxyPort}` : '$HTTP_PROXY'
        const get = `curl -s --max-time 5 -x ${proxy} http://theirs.test:${port}/ || echo failed`
        const said = await sh(session, get)
        assert.match(said, /failed|not in the allowlist/)
      })
      assert.deepEqual(server.requests, [])
      assert.match(await sh(other, `wget -q -O - http://theirs.test:${port}/`), /hello/)
    } finally {
      await other.release({ status: 'completed' })
      await theirs.close()
    }
  })
})

test('C31: an allowed host has no other port than the allowed ones', async () => {
  const [server, other] = [webServer(), webServer()]
  await serving(server, port =>
    serving(other, async closed => {
      const { options } = reaching([port])
      await inClients(options, async session => {
        const said = await sh(session, `curl -s -p -x $HTTP_PROXY http://good.test:${closed}/ 2>&1 || echo failed $?`)
        assert.match(said, /failed 56|failed 22/)
      })
      assert.deepEqual(other.requests, [])
    }),
  )
})

test('a redirect to a refused host ends there', async () => {
  const server = webServer((request, response) => {
    if (request.url !== '/go') return response.end('reached')
    response.writeHead(302, { location: `http://bad.test:${server.address().port}/secret` }).end()
  })
  await serving(server, async port => {
    const { options } = reaching([port])
    await inClients(options, async session => {
      assert.match(await sh(session, `curl -sL http://good.test:${port}/go`), /bad\.test is not in the allowlist/)
    })
    assert.deepEqual(server.requests, ['GET /go'])
  })
})

test('C15: every form of a request is judged', async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options } = reaching([port])
    await inClients(options, async session => {
      const ask = async head => {
        const script = `import os,socket,sys,urllib.parse
p=urllib.parse.urlparse(os.environ['HTTP_PROXY']); s=socket.create_connection((p.hostname,p.port),5)
s.sendall(sys.argv[1].encode()); s.shutdown(socket.SHUT_WR)
d=b''
while True:
  b=s.recv(4096)
  if not b: break
  d+=b
print(d.decode().split('\\r\\n')[0])`
        return (await session.exec({ command: 'python3', args: ['-c', script, head] })).stdout.trim()
      }
      const host = `Host: good.test:${port}\r\n\r\n`
      assert.match(await ask(`GET http://bad.test:${port}/ HTTP/1.1\r\nHost: bad.test:${port}\r\n\r\n`), /403/)
      assert.match(await ask(`GET / HTTP/1.1\r\n${host}`), /400/)
      assert.match(await ask(`GET https://good.test:${port}/ HTTP/1.1\r\n${host}`), /400/)
      assert.match(await ask(`OPTIONS * HTTP/1.1\r\n${host}`), /400/)
      assert.match(await ask(`GET http://good.test:${port}/ HTTP/1.1\r\nHost: bad.test\r\n\r\n`), /400/)
      assert.deepEqual(server.requests, [])
      assert.match(await ask(`GET http://good.test:${port}/ HTTP/1.1\r\n${host}`), /200/)
    })
  })
})

/** Of AWS over IPv6, of Google Cloud over IPv6, of Alibaba Cloud, and of AWS for its containers. */
const METADATA = ['fd00:ec2::254', 'fd20:ce::254', '100.100.100.200', '169.254.170.2']

test('C01, C02, C14: a name that leads to a private address, then or later, is refused', async () => {
  const server = webServer()
  await serving(server, async port => {
    const names = {
      'private.test': ['127.0.0.1'],
      'mixed.test': ['93.184.216.34', '10.0.0.5'],
      'second.test': count => (count % 2 === 1 ? ['93.184.216.34'] : ['127.0.0.1']),
      'flips.test': count => (count % 2 === 1 ? ['127.0.0.1'] : ['93.184.216.34']),
      'mapped.test': ['::ffff:127.0.0.1'],
      'six.test': ['::1'],
      'metadata.google.internal': ['169.254.169.254'],
      // The metadata services of clouds, by whatever name (C14).
      ...Object.fromEntries(METADATA.map((address, n) => [`metadata${n}.test`, [address]])),
    }
    const { options } = reaching([port], { names, allowedDomains: Object.keys(names), allowPrivateNetworks: false })
    await inSession(options, async session => {
      for (const name of Object.keys(names)) {
        const said = await sh(session, `wget -O - http://${name}:${port}/ 2>&1 || true`)
        assert.match(said, /403 Host Address Not Public/, name)
      }
    })
    assert.deepEqual(server.requests, [])
  })
})

test('C32: NO_PROXY that a command sets leads nowhere', async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options } = reaching([port])
    await inClients(options, async session => {
      const env = { NO_PROXY: '*', no_proxy: '*' }
      const said = await sh(session, `curl -s --max-time 5 http://good.test:${port}/ || echo failed`, { env })
      assert.match(said, /failed/)
      for (const only of ['http_proxy', 'HTTP_PROXY']) {
        const script = `env -i ${only}=$HTTP_PROXY PATH=$PATH python3 -c "import requests; print(requests.get('http://good.test:${port}/').status_code)"`
        assert.equal((await sh(session, script)).trim(), '200', only)
      }
    })
  })
})

leavesNothing()
