// Quotas of the allowlist in a real container: each reached exactly, and passed by one.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { CLIENTS, lab, sh } from '../support/live.mjs'
import { reaching, serving, webServer } from '../support/network.mjs'
import { eventually } from '../support/wait.mjs'

const { environment, inSession, leavesNothing } = lab()

const page = size => webServer((_request, response) => response.end('x'.repeat(size)))

/** A session whose allowlist has these quotas, with a function that runs a shell script there. */
const within = (quotas, server, use) =>
  serving(server, async port => {
    const { options, events } = reaching([port], { quotas })
    const limits = { memoryMb: 512, pids: 256, commandTimeoutMs: 60_000 }
    await inSession({ ...options, image: CLIENTS, limits }, session =>
      use({ session, events, url: `http://good.test:${port}/`, run: script => sh(session, script) }),
    )
  })

/** How long the proxy waits for a reply to be taken, and again for the client's end. */
const LINGER_MS = 1000
/** What a machine with much to do may add. */
const SLACK_MS = 2000

const status = url => `curl -s -o /dev/null -w '%{http_code}' ${url} || true`

test('maxRequests: the last one passes, the next is refused', async () => {
  const server = webServer()
  await within({ maxRequests: 2 }, server, async ({ url, run }) => {
    assert.deepEqual([await run(status(url)), await run(status(url)), await run(status(url))], ['200', '200', '429'])
    assert.equal(server.requests.length, 2)
  })
})

test('maxBytesDown: a reply of that many bytes passes, one more is cut', async () => {
  const fetched = async size => {
    let result
    // The head counts too: its length is asked for first.
    await within({}, page(size), async ({ url, run }) => {
      const head = Number(await run(`curl -s -D - -o /dev/null ${url} | wc -c`))
      result = head + size
    })
    return result
  }
  const all = await fetched(5000)
  await within({ maxBytesDown: all }, page(5000), async ({ url, run }) => {
    assert.equal(await run(`curl -s ${url} | wc -c`), '5000\n')
  })
  await within({ maxBytesDown: all - 1 }, page(5000), async ({ session, url }) => {
    const cut = await session.exec({ command: 'curl', args: ['-sS', '-o', '/dev/null', url] })
    assert.notEqual(cut.exitCode, 0, 'a reply that was cut is no whole one')
  })
})

/** What one such request and its reply count for, both ways together, as the event of its end tells. */
async function costOf(size) {
  let cost
  await within({}, page(size), async ({ url, run, events }) => {
    assert.equal(await run(status(url)), '200')
    const ended = () => events.find(event => event.type === 'network_closed')
    await eventually('its end is told', ended)
    cost = ended().bytesUp + ended().bytesDown
  })
  return cost
}

test('maxNetworkBytes: a run that uses them to the last one is served, one less cuts it, and nothing is left after', async () => {
  const cost = await costOf(5000)
  assert.ok(cost > 5000)
  await within({ maxNetworkBytes: 2 * cost }, page(5000), async ({ url, run }) => {
    for (let round = 0; round < 2; round++) assert.equal(await run(`curl -s ${url} | wc -c`), '5000\n')
    assert.equal(await run(status(url)), '429')
  })
  await within({ maxNetworkBytes: 2 * cost - 1 }, page(5000), async ({ session, url, run }) => {
    assert.equal(await run(`curl -s ${url} | wc -c`), '5000\n')
    const cut = await session.exec({ command: 'curl', args: ['-sS', '-o', '/dev/null', url] })
    assert.notEqual(cut.exitCode, 0, 'a reply that was cut is no whole one')
    assert.equal(await run(status(url)), '429')
  })
})

test('a run that has used up its quotas changes nothing for another run beside it', async () => {
  const server = webServer()
  await serving(server, async port => {
    const quotas = { maxRequests: 2, maxNetworkRequests: 2, maxConnections: 1 }
    const url = `http://good.test:${port}/`
    const { options } = reaching([port], { quotas })
    const owner = environment({ ...options, image: CLIENTS, limits: { memoryMb: 512, pids: 256 } })
    const [used, other] = await Promise.all([1, 2].map(() => owner.acquire({ runId: randomUUID() })))
    try {
      const statuses = async session => [await sh(session, status(url)), await sh(session, status(url))]
      assert.deepEqual([await statuses(used), await sh(used, status(url))], [['200', '200'], '429'])
      // Its only place is taken too, by one that says nothing.
      const silent = await used.spawn({
        command: 'python3',
        args: ['-c', slow(1, 'print(1, flush=True); time.sleep(60)')],
      })
      for await (const { data } of silent) if (data.length > 0) break
      assert.deepEqual(await statuses(other), ['200', '200'])
    } finally {
      for (const session of [used, other]) await session.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('maxHeadBytes: a head of that many bytes passes, one more is refused', async () => {
  const script = (size, url) => `
import os,socket,urllib.parse
p=urllib.parse.urlparse(os.environ['HTTP_PROXY']); u=urllib.parse.urlparse('${url}')
head=f'GET ${url} HTTP/1.1\\r\\nHost: {u.netloc}\\r\\nX: '
rest='\\r\\n\\r\\n'
s=socket.create_connection((p.hostname,p.port),8)
s.sendall((head+'a'*(${size}-len(head)-len(rest))+rest).encode())
print(s.recv(100).split()[1].decode())`
  await within({ maxHeadBytes: 512 }, webServer(), async ({ session, url }) => {
    const said = async size =>
      (await session.exec({ command: 'python3', args: ['-c', script(size, url)] })).stdout.trim()
    assert.deepEqual([await said(512), await said(513)], ['200', '431'])
  })
})

/** Opens `count` connections to the proxy that say nothing, prints what `then` prints, and keeps them until its end. */
const slow = (count, then) => `
import os,socket,sys,time,urllib.parse
p=urllib.parse.urlparse(os.environ['HTTP_PROXY'])
def request():
  d=b''
  try:
    s=socket.create_connection((p.hostname,p.port),30)
    s.sendall(b'GET '+sys.argv[1].encode()+b' HTTP/1.1\\r\\nHost: '+urllib.parse.urlparse(sys.argv[1]).netloc.encode()+b'\\r\\n\\r\\n')
    while b:=s.recv(4096): d+=b
  # Who comes when many are refused at the same time is reset.
  except (BrokenPipeError, ConnectionResetError): pass
  return d.split()[1].decode() if d else 'nothing'
many=[]
for n in range(${count}):
  try: s=socket.create_connection((p.hostname,p.port),30); many.append(s); s.sendall(b'G')
  except (BrokenPipeError, ConnectionResetError): pass
${then}`

test('maxConnections: that many are open at once, and one more is refused at once', async () => {
  const server = webServer()
  await within({ maxConnections: 3 }, server, async ({ session, url }) => {
    const said = async count => {
      const then = 'time.sleep(0.3); print(request())'
      return (await session.exec({ command: 'python3', args: ['-c', slow(count, then), url] })).stdout.trim()
    }
    assert.equal(await said(2), '200')
    assert.equal(await said(3), '429')
    assert.equal(server.requests.length, 1)
  })
})

test('headTimeoutMs: who does not finish its head is let go, and its place is free again', async () => {
  const server = webServer()
  await within({ maxConnections: 2, headTimeoutMs: 1000 }, server, async ({ session, url }) => {
    const then = `
for s in many:
  d=b''
  while True:
    b=s.recv(4096)
    if not b: break
    d+=b
  print(d.split()[1].decode())
  s.close()
code=None
while code!='200':
  code=request()
  time.sleep(0.05)
print(code)`
    const result = await session.exec({ command: 'python3', args: ['-c', slow(2, then), url] })
    assert.equal(result.stdout, '408\n408\n200\n', result.stderr)
  })
})

test('a thousand slow clients are turned away, and the next one is served as soon as their time is over', async () => {
  const server = webServer()
  const headTimeoutMs = 2000
  await within({ headTimeoutMs }, server, async ({ session, url, events }) => {
    const then = `
began=time.monotonic()
while (code:=request())!='200': time.sleep(0.02)
print(code, round(1000*(time.monotonic()-began)))`
    const result = await session.exec({ command: 'python3', args: ['-c', slow(1000, then), url] })
    const [code, took] = result.stdout.trim().split(' ')
    assert.equal(code, '200', JSON.stringify(result).slice(0, 2000))
    // The last of them was there before, so its time ended within that; then its reply has up to 2 s to be read.
    assert.ok(Number(took) < headTimeoutMs + 2 * LINGER_MS + SLACK_MS, `${took} ms`)
    assert.equal(server.requests.length, 1)
    assert.ok(events.some(event => event.type === 'network_refused' && event.status === 429))
  })
})

test('idleTimeoutMs: a quiet connection is cut, and others are not', async () => {
  const server = webServer((request, response) =>
    request.url === '/quiet' ? response.write('begun') : response.end('done'),
  )
  await within({ idleTimeoutMs: 1000 }, server, async ({ session, url, run }) => {
    const quiet = session.exec({ command: 'curl', args: ['-sS', '-o', '/dev/null', `${url}quiet`] })
    assert.equal(await run(`curl -s ${url}`), 'done')
    assert.notEqual((await quiet).exitCode, 0)
  })
})

/** A server that answers `/held` bit by bit without an end, and everything else at once. */
const holding = () =>
  webServer((request, response) => {
    if (request.url !== '/held') return response.end('done')
    const timer = setInterval(() => response.write('more'), 20)
    response.on('close', () => clearInterval(timer))
  })

test('maxTotalConnections: that many are open of all runs, and one more is refused to every run', async () => {
  const server = holding()
  const quotas = { maxTotalConnections: 3 }
  await within(quotas, server, async ({ session, url }) => {
    const { options } = reaching([Number(new URL(url).port)], { quotas })
    await inSession({ ...options, image: CLIENTS }, async other => {
      const held = []
      const hold = async () => {
        held.push(await session.spawn({ command: 'curl', args: ['-sN', `${url}held`] }))
        await eventually('it is served', () => server.requests.length === held.length + answered)
      }
      let answered = 0
      await hold()
      await hold()
      assert.equal(await sh(other, status(url)), '200')
      answered = 1
      await hold()
      assert.equal(await sh(other, status(url)), '429')
      await held[0].kill()
      await eventually('a place is free', async () => (await sh(other, status(url))) === '200')
    })
  })
})

test('maxInFlightDns: that many names are looked up at once, and one more is refused at once', async () => {
  const server = webServer()
  let answer
  const gate = new Promise(resolve => (answer = resolve))
  await serving(server, async port => {
    const hosts = ['a.test', 'b.test', 'c.test']
    const { options, asked } = reaching([port], { allowedDomains: hosts, quotas: { maxInFlightDns: 2 } })
    const resolveHost = host => gate.then(() => options.resolveHost(host))
    const looked = []
    const slowly = { ...options, resolveHost: host => (looked.push(host), resolveHost(host)) }
    await inSession({ ...slowly, image: CLIENTS, limits: { memoryMb: 512, pids: 256 } }, async session => {
      const url = host => `http://${host}:${port}/`
      const first = hosts.slice(0, 2).map(host => sh(session, status(url(host))))
      await eventually('both are looked up', () => looked.length === 2)
      assert.equal(await sh(session, status(url('c.test'))), '429')
      answer()
      assert.deepEqual(await Promise.all(first), ['200', '200'])
      assert.equal(await sh(session, status(url('c.test'))), '200')
      assert.ok(asked.includes('c.test'))
    })
  })
})

test('maxBytesUp: a request of that many bytes passes, one more is refused', async () => {
  let [whole, sent] = [0, 0]
  const counting = () =>
    createServer(socket => {
      let got = Buffer.alloc(0)
      socket.on('error', () => undefined)
      socket.on('data', data => {
        got = Buffer.concat([got, data])
        if (got.length < got.indexOf('\r\n\r\n') + 4 + 5000) return
        whole++
        sent = got.length
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
      })
    })
  const upload = url => `head -c 5000 /dev/zero | ${status(`-H Expect: --data-binary @- ${url}`)}`
  // What is counted is what the server gets: the head that the proxy makes of the request's, and the body.
  await within({}, counting(), async ({ url, run }) => {
    assert.equal(await run(upload(url)), '200')
  })
  for (const [maxBytesUp, code] of [
    [sent, '200'],
    [sent - 1, '429'],
  ]) {
    const before = whole
    await within({ maxBytesUp }, counting(), async ({ url, run }) => {
      assert.equal(await run(upload(url)), code)
      assert.equal(whole - before, code === '200' ? 1 : 0, 'half a body never looks whole')
    })
  }
})

test('tunnelLifetimeMs: a busy connection is cut at its end, and others are not', async () => {
  const server = holding()
  await within({ tunnelLifetimeMs: 1500 }, server, async ({ session, url, run }) => {
    const args = ['-sN', '-o', '/dev/null', '-w', '%{time_total}', `${url}held`]
    const busy = session.exec({ command: 'curl', args })
    assert.equal(await run(`curl -s ${url}`), 'done')
    const { exitCode, stdout } = await busy
    assert.notEqual(exitCode, 0)
    assert.ok(Number(stdout) >= 1.4, stdout)
    assert.equal(await run(`curl -s ${url}`), 'done')
  })
})

leavesNothing()
