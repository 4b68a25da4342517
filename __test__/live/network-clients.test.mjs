// Programs that fetch over https, from inside a container: an allowed host works, another one does not (C17, C19).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CLIENTS, eventually, lab, sh } from '../support/live.mjs'
import { reaching, withTlsOrigin } from '../support/network.mjs'

const { inSession, leavesNothing } = lab()

const TRUST = 'CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS npm_config_cafile'.split(
  ' ',
)
const env = Object.fromEntries(TRUST.map(name => [name, '/workspace/ca.pem']))

/** Each prints `hello over tls`, or what it fetched, with https from `host`. */
const CLIENT = {
  wget: host => `wget -nv -O - --tries=1 --timeout=8 --ca-certificate=ca.pem https://${host}/hello.txt`,
  npm: host => `npm pack --cache .npm --fetch-retries=0 --registry https://${host}/npm/ hello && ls hello-1.0.0.tgz`,
  curl: host => `curl -sS --max-time 8 https://${host}/hello.txt`,
  git: host => `rm -rf cloned && git clone -q https://${host}/hello.git cloned && cat cloned/hello.txt`,
  pip: host =>
    `pip download -q --disable-pip-version-check --no-cache-dir --no-deps --retries 0 --index-url https://${host}/simple hello && ls hello-1.0*`,
  requests: host => `python3 -c "import requests; print(requests.get('https://${host}/hello.txt', timeout=8).text)"`,
  fetch: host => `node -e "fetch('https://${host}/hello.txt').then(r => r.text()).then(console.log)"`,
}

for (const [name, command] of Object.entries(CLIENT)) {
  test(`${name} reaches an allowed host over https, and no other`, () =>
    withTlsOrigin(async (port, cert) => {
      const { options, events } = reaching([port])
      await inSession({ ...options, image: CLIENTS, env, limits: { memoryMb: 1024 } }, async session => {
        await session.writeFile('ca.pem', cert)
        assert.match(await sh(session, command(`good.test:${port}`)), /hello/)
        const refused = await session.exec({ command: 'sh', args: ['-c', command(`bad.test:${port}`)] })
        assert.notEqual(refused.exitCode, 0, JSON.stringify(refused))
        assert.match(refused.stdout + refused.stderr, /403|not in allowlist|fetch failed|No matching distribution/i)
        await eventually('the refusal is told', () =>
          events.some(event => event.type === 'network_refused' && event.host === 'bad.test'),
        )
      })
    }))
}

test('C17: a server name unlike the CONNECT name is refused, however it is cut', () =>
  withTlsOrigin(async (port, cert) => {
    const { options, events } = reaching([port])
    await inSession({ ...options, image: CLIENTS, env, limits: { memoryMb: 1024 } }, async session => {
      await session.writeFile('ca.pem', cert)
      const connectTo = `curl -sS --max-time 8 -k --connect-to other.test:${port}:good.test:${port} https://other.test:${port}/hello.txt`
      const fronted = await session.exec({ command: 'sh', args: ['-c', connectTo] })
      assert.notEqual(fronted.exitCode, 0, JSON.stringify(fronted))
      const slowly = name => `
import os,socket,ssl,time,urllib.parse
p=urllib.parse.urlparse(os.environ['HTTP_PROXY'])
s=socket.create_connection((p.hostname,p.port),8)
s.sendall(b'CONNECT good.test:${port} HTTP/1.1\\r\\nHost: good.test:${port}\\r\\n\\r\\n')
head=b''
while not head.endswith(b'\\r\\n\\r\\n'): head+=s.recv(1)
out,inn=ssl.MemoryBIO(),ssl.MemoryBIO()
c=ssl.create_default_context(); c.check_hostname=False; c.verify_mode=ssl.CERT_NONE
t=c.wrap_bio(inn,out,server_hostname='${name}')
try: t.do_handshake()
except ssl.SSLWantReadError: pass
s.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)
for byte in out.read(): s.sendall(bytes([byte]))
print(s.recv(5)[0])`
      const said = async name => (await session.exec({ command: 'python3', args: ['-c', slowly(name)] })).stdout.trim()
      // A handshake record is 22, an alert 21 (RFC 8446, section 5.1).
      assert.equal(await said('good.test'), '22')
      assert.equal(await said('other.test'), '21')
      await eventually('the cut is told', () =>
        events.some(event => event.type === 'network_closed' && /server name|SNI|name/i.test(event.reason ?? '')),
      )
    })
  }))

test('C19: what comes in one piece with a CONNECT is not lost', () =>
  withTlsOrigin(async port => {
    const { options } = reaching([port])
    await inSession({ ...options, image: CLIENTS, limits: { memoryMb: 512 } }, async session => {
      const script = `
import os,socket,ssl,urllib.parse
p=urllib.parse.urlparse(os.environ['HTTP_PROXY'])
out,inn=ssl.MemoryBIO(),ssl.MemoryBIO()
c=ssl.create_default_context(); c.check_hostname=False; c.verify_mode=ssl.CERT_NONE
t=c.wrap_bio(inn,out,server_hostname='good.test')
try: t.do_handshake()
except ssl.SSLWantReadError: pass
s=socket.create_connection((p.hostname,p.port),8)
s.sendall(b'CONNECT good.test:${port} HTTP/1.1\\r\\nHost: good.test:${port}\\r\\n\\r\\n'+out.read())
head=b''
while not head.endswith(b'\\r\\n\\r\\n'): head+=s.recv(1)
while True:
  inn.write(s.recv(16384))
  try: t.do_handshake(); break
  except ssl.SSLWantReadError: pass
print(t.version())`
      const result = await session.exec({ command: 'python3', args: ['-c', script] })
      assert.match(result.stdout, /TLSv1/, result.stderr)
    })
  }))

leavesNothing()
