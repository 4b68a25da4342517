// The network allowlist in a real container, with the transport of the run.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { engine, eventually, lab, sh, transport } from '../support/live.mjs'
import { reaching, serving, webServer } from '../support/network.mjs'

const { environment, inSession, leavesNothing } = lab()

const networks = async () => (await engine('GET', '/networks')).map(({ Name }) => Name).toSorted()

test('a program that takes a proxy reaches an allowed host, and an event tells', async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options, events, asked } = reaching([port])
    await inSession(options, async session => {
      assert.equal(await sh(session, `wget -q -O - http://good.test:${port}/a`), `hello from good.test:${port}\n`)
      await eventually('the end is told', () => events.some(event => event.type === 'network_closed'))
    })
    assert.deepEqual([server.requests, asked], [['GET /a'], ['good.test', 'good.test']])
    const [allowed, closed] = events.filter(event => event.type.startsWith('network_'))
    assert.deepEqual(
      [allowed.type, allowed.host, allowed.port, allowed.rule],
      ['network_allowed', 'good.test', port, 'good.test'],
    )
    assert.deepEqual([closed.type, closed.host, closed.bytesDown > 0], ['network_closed', 'good.test', true])
  })
})

test('another host and another port are refused with a reason, and reach nobody', async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options, events, asked } = reaching([port])
    await inSession(options, async session => {
      for (const url of [`http://bad.test:${port}/`, `http://good.test:${port + 1}/`, `http://127.0.0.1:${port}/`]) {
        const said = await sh(session, `wget -O - ${url} 2>&1 || true`)
        assert.match(said, /403/, url)
      }
      await eventually('each is told', () => events.filter(event => event.type === 'network_refused').length === 3)
    })
    const reasons = events.filter(event => event.type === 'network_refused').map(event => event.reason)
    assert.match(reasons[0], /^The host bad\.test is not in the allowlist\. Allowed: good\.test\./)
    assert.match(reasons[1], /^Port \d+ is not in the allowlist/)
    assert.match(reasons[2], /^IP addresses are not allowed/)
    assert.deepEqual([server.requests, asked], [[], []])
  })
})

test('the resident transport makes no network, and the exec transport one that goes with the run', async () => {
  const before = await networks()
  const { options } = reaching([443])
  await inSession(options, async session => {
    assert.equal(session.capabilities.network, transport === 'exec' ? 'bridge' : 'stream')
    const links = (await sh(session, 'ls /sys/class/net')).trim().split(/\s+/).toSorted()
    const added = (await networks()).filter(name => !before.includes(name))
    if (transport === 'exec') {
      assert.deepEqual([links, added.length], [['eth0', 'lo'], 1])
    } else {
      assert.deepEqual([links, added], [['lo'], []])
    }
  })
  assert.deepEqual(await networks(), before)
})

test('commands have the variables by which programs find a proxy', async () => {
  const { options } = reaching([443])
  await inSession(options, async session => {
    const env = Object.fromEntries(
      (await sh(session, 'env'))
        .trim()
        .split('\n')
        .map(line => line.split(/=(.*)/s)),
    )
    const { HTTP_PROXY, HTTPS_PROXY, http_proxy, https_proxy, NO_PROXY, no_proxy, NODE_USE_ENV_PROXY } = env
    if (transport !== 'exec') assert.equal(HTTP_PROXY, 'http://127.0.0.1:3128')
    assert.match(HTTP_PROXY, /^http:\/\/[\d.]+:\d+$/)
    assert.deepEqual([HTTPS_PROXY, http_proxy, https_proxy], [HTTP_PROXY, HTTP_PROXY, HTTP_PROXY])
    assert.deepEqual([NO_PROXY, no_proxy, NODE_USE_ENV_PROXY], ['', '', '1'])
  })
})

test('without an allowlist nothing listens, and there is no variable', async () => {
  await inSession({}, async session => {
    assert.equal(session.capabilities.network, undefined)
    assert.equal(await sh(session, 'env | grep -ic proxy || true'), '0\n')
    assert.match(await sh(session, 'wget -O - http://127.0.0.1:3128/ 2>&1 || true'), /refused/)
  })
})

test('an empty list allows nothing', async () => {
  const { options } = reaching([80], { allowedDomains: [] })
  await inSession(options, async session => {
    assert.match(await sh(session, 'wget -O - http://good.test/ 2>&1 || true'), /403/)
  })
})

test('the manifest has the rules in one form, and the fingerprint follows them', () => {
  const made = allowedDomains => environment({ network: { mode: 'allowlist', allowedDomains } })
  const { manifest } = made(['B.Example.com.', '*.a.example', 'b.example.com'])
  assert.deepEqual(manifest.permissions.network, {
    mode: 'allowlist',
    allowedDomains: ['b.example.com', '*.a.example'],
    allowedPorts: [443],
    allowPrivateNetworks: false,
  })
  assert.equal(manifest.limits.maxNetworkRequests, 10_000)
  assert.equal(manifest.metadata.proxyQuotas.maxConnections, 32)
})

leavesNothing()
