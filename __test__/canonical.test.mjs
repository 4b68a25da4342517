import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { fingerprintOf } from './support/fingerprint.mjs'
import { fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { canonical } = require('../js/canonical.cjs')
const { createApi } = require('../js/create.cjs')

/** Deterministic numbers in [0, 1): mulberry32. */
function randomOf(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const KEYS = 'allowPrivateNetworks allowedDomains allowedPorts a A á ä z Z ž ch c h i I ı ł ñ 1 10 2 _x x-y é é'.split(
  ' ',
)

function randomValue(random, depth) {
  const pick = list => list[Math.floor(random() * list.length)]
  if (depth > 0 && random() < 0.5) {
    const length = Math.floor(random() * 6)
    if (random() < 0.3) return Array.from({ length }, () => randomValue(random, depth - 1))
    return Object.fromEntries(Array.from({ length }, () => [pick(KEYS), randomValue(random, depth - 1)]))
  }
  return pick([null, true, false, 0, -0, 1, 0.5, 1e21, 1e-7, 2 ** 53, random(), undefined, '', 'é"\\\n', '\u2028'])
}

test('1,000 random manifests have the fingerprint that an independent implementation gives them', () => {
  const random = randomOf(20_260)
  for (let nth = 0; nth < 1_000; nth++) {
    // Undefined members of arrays are the one thing that JSON text cannot carry; manifests come from JSON text.
    const manifest = JSON.parse(JSON.stringify({ id: 'e', body: randomValue(random, 5) }))
    manifest.absent = undefined
    const { binding } = fakeBinding()
    const handle = binding.prepareEnvironment('{"workspace":{"id":"w"}}')
    assert.equal(handle.seal(canonical(manifest)), fingerprintOf(manifest))
  }
})

test('the three traps: order of the locale, numbers as JavaScript writes them, undefined', () => {
  const network = {
    mode: 'deny',
    allowPrivateNetworks: false,
    allowedPorts: [443],
    allowedDomains: [],
    none: undefined,
  }
  assert.equal(canonical({ z: 1.0, b: null, network }).includes('undefined'), false)
  assert.equal(canonical([1.0, 0.5, 1e21, 1e-7, -0, null]), '[1,0.5,1e+21,1e-7,0,null]')
  for (const value of [NaN, Infinity]) assert.throws(() => canonical({ value }), { code: 'INTERNAL' })
})

test('the locale of the process decides the order, as it does for the runtime in that process', () => {
  const canonicalFile = JSON.stringify(require.resolve('../js/canonical.cjs'))
  const fingerprintFile = JSON.stringify(new URL('support/fingerprint.mjs', import.meta.url).href)
  const script = `
    const text = require(${canonicalFile}).canonical({ allowPrivateNetworks: 1, allowedPorts: 2, allowedDomains: 3, ch: 4, h: 5, d: 6 })
    import(${fingerprintFile}).then(({ fingerprintOf }) => {
      const hash = require('node:crypto').createHash('sha256').update(text).digest('hex')
      process.stdout.write(Object.keys(JSON.parse(text)).join() + ' ' + (fingerprintOf(JSON.parse(text)) === 'sha256:' + hash))
    })`
  const run = locale =>
    execFileSync(process.execPath, ['-e', script], {
      encoding: 'utf8',
      env: { ...process.env, LC_ALL: locale, LANG: locale },
    })
  assert.equal(run('en_US.UTF-8'), 'allowedDomains,allowedPorts,allowPrivateNetworks,ch,d,h true')
  // Bun keeps to one locale whatever the environment says; Node follows it, and Czech sorts "ch" after "h".
  const czech = process.versions.bun ? 'ch,d,h' : 'd,h,ch'
  assert.equal(run('cs_CZ.UTF-8'), `allowedDomains,allowedPorts,allowPrivateNetworks,${czech} true`)
})

test('the sealed text, the binding and the frozen manifest belong together', async () => {
  const { binding, calls } = fakeBinding()
  const environment = createApi(binding).createDockerSandboxEnvironment({
    id: 'e',
    version: '7',
    workspace: { id: 'w' },
  })
  const session = await environment.acquire({ runId: 'r' })
  assert.equal(session.manifest, environment.manifest)
  assert.deepEqual(session.binding, {
    environmentId: 'e',
    environmentVersion: '7',
    fingerprint: fingerprintOf(environment.manifest),
    workspaceId: 'w',
  })
  assert.deepEqual(calls.filter(([name]) => name === 'seal').length, 1)
  for (const frozen of [
    session.manifest,
    session.manifest.workspace,
    session.manifest.permissions.network.allowedPorts,
  ]) {
    assert.ok(Object.isFrozen(frozen))
  }
  assert.ok(Object.isFrozen(session.binding))
})
