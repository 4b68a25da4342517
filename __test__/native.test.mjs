// The real addon, over the in-memory engine: what crosses the border, and what the core and JavaScript must agree on.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import {
  ConflictError,
  SandboxError,
  allowlistProxyQuotaDefaults,
  createDockerSandboxEnvironment,
  createMemoryDockerClient,
  createMemoryLeaseStore,
  dockerSandboxSecurityDefaults,
} from '../index.js'
import { fingerprintOf } from './support/fingerprint.mjs'

const require = createRequire(import.meta.url)
const { ERROR_CODES } = require('../js/errors.cjs')
const native = require('../binding.cjs')

const create = (options = {}) =>
  createDockerSandboxEnvironment({
    client: createMemoryDockerClient(),
    workspace: { id: 'w' },
    shell: 'allow',
    ...options,
  })

const code = expected => error => {
  assert.ok(error instanceof SandboxError, String(error?.stack))
  assert.equal(error.code, expected, error.message)
  return true
}

test('core and JavaScript have the same codes, and conflicts besides', () => {
  assert.deepEqual(native.errorCodes(), [...ERROR_CODES, 'CONFLICT'])
})

test('real sessions have the fingerprint that an independent implementation gives their manifest', async () => {
  const pick = (list, n) => list[n % list.length]
  for (let n = 0; n < 200; n++) {
    const environment = create({
      id: pick(['docker-sandbox', 'é', 'z"\\', '10'], n),
      ...(n % 3 ? {} : { version: `1.${n}` }),
      shell: pick(['deny', 'allow', { allow: ['ls', 'cat', 'Z', 'ä'] }, { allow: [] }], n >> 1),
      limits: { cpus: pick([0.5, 1, 1.25, 0.1], n), pids: 64 + n, memoryMb: 256 + n },
      leaseMs: 60_000 + n,
      env: pick([{}, { A: '1', b: '2', _c: '3' }], n),
      declaredTools: pick([[], ['b', 'a', 'ä']], n >> 2),
    })
    const session = await environment.acquire({ runId: `r${n}` })
    assert.equal(session.binding.fingerprint, fingerprintOf(environment.manifest))
    assert.equal(session.manifest, environment.manifest)
    await session.release({ status: 'completed' })
  }
})

test('values of variables, transports and owners are not in the fingerprint; names and limits are', async () => {
  const of = async options => {
    const session = await create(options).acquire({ runId: 'r' })
    await session.release({ status: 'completed' })
    return session.binding.fingerprint
  }
  const base = await of({ env: { KEY: 'secret-1' } })
  assert.equal(await of({ env: { KEY: 'secret-2' }, transport: 'exec', ownerId: 'o', socketPath: '/x' }), base)
  assert.ok(!JSON.stringify(create({ env: { KEY: 'secret-1' } }).manifest).includes('secret-1'))
  for (const other of [
    { env: { OTHER: 'secret-1' } },
    { env: { KEY: 'x' }, user: '1000' },
    { env: { KEY: 'x' }, limits: { pids: 65 } },
    { env: { KEY: 'x' }, limits: { cpus: 0.6 } },
    { env: { KEY: 'x' }, image: 'alpine:3.20' },
    { env: { KEY: 'x' }, tmp: { sizeMb: 1 } },
    { env: { KEY: 'x' }, declaredTools: ['t'] },
  ]) {
    assert.notEqual(await of(other), base, JSON.stringify(other))
  }
})

test('defaults are frozen and those of the reference profile', () => {
  assert.ok(Object.isFrozen(dockerSandboxSecurityDefaults) && Object.isFrozen(allowlistProxyQuotaDefaults))
  const { user, memoryMb, cpus, pids } = dockerSandboxSecurityDefaults
  assert.deepEqual([user, memoryMb, cpus, pids], ['65534:65534', 256, 0.5, 64])
})

test('the double enforces nothing and says so', async () => {
  assert.equal(create().manifest.assurance, 'best-effort')
  assert.throws(() => create({ assurance: 'enforced' }), code('UNSUPPORTED'))
})

test('one run has one holder, two tenants with the same run id have two', async () => {
  const environment = create({ leaseStore: createMemoryLeaseStore() })
  const scopes = [undefined, { tenantId: 'a' }, { tenantId: 'b' }, { tenantId: 'a', userId: 'u' }]
  const sessions = await Promise.all(scopes.map(scope => environment.acquire({ runId: 'same', scope })))
  await Promise.all(sessions.map((session, n) => session.writeFile('who', String(n))))
  for (const [n, session] of sessions.entries()) {
    assert.equal((await session.readFile('who', { encoding: 'utf8' })).contents, String(n))
  }
  await assert.rejects(environment.acquire({ runId: 'same' }), error => error instanceof ConflictError)
  await Promise.all(sessions.map(session => session.release({ status: 'completed' })))
  const again = await environment.acquire({ runId: 'same' })
  assert.deepEqual((await again.list()).entries, [])
  await again.release({ status: 'completed' })
})

test('a failing engine leaves no half-made run behind', async () => {
  for (const method of ['createContainer', 'startContainer', 'inspectContainer', 'putArchive']) {
    const client = createMemoryDockerClient({ fail: [{ method, nth: 1, message: 'on purpose' }] })
    const environment = create({ client, ownerId: 'o', workspace: { id: 'w', files: [{ path: 'a', contents: 'x' }] } })
    await assert.rejects(environment.acquire({ runId: 'r' }), /on purpose/, method)
    assert.deepEqual(await client.listContainers('zhivex.sandbox=1'), [], method)
    const session = await environment.acquire({ runId: 'r' })
    assert.equal((await session.readFile('a', { encoding: 'utf8' })).contents, 'x')
    await session.release({ status: 'completed' })
  }
})

test('a release that the engine refuses never rejects, and the next acquire finishes it', async () => {
  const client = createMemoryDockerClient({ fail: [{ method: 'removeContainer', nth: 1 }] })
  const environment = create({ client })
  const session = await environment.acquire({ runId: 'r' })
  await session.writeFile('left', 'x')
  assert.equal(await session.release({ status: 'completed' }), undefined)
  assert.equal((await client.listContainers('zhivex.sandbox=1')).length, 1)
  const next = await environment.acquire({ runId: 'r' })
  assert.deepEqual((await next.list()).entries, [])
  await next.release({ status: 'completed' })
  assert.deepEqual(await client.listContainers('zhivex.sandbox=1'), [])
})

test('close ends operations and hands runs back', async () => {
  const [client, leaseStore] = [createMemoryDockerClient(), createMemoryLeaseStore()]
  const first = create({ client, leaseStore, ownerId: 'o' })
  const session = await first.acquire({ runId: 'r' })
  await session.writeFile('kept', 'x')
  await first.close()
  await assert.rejects(session.readFile('kept'), code('RELEASED'))
  await assert.rejects(first.acquire({ runId: 'other' }), code('RELEASED'))
  const resumed = await create({ client, leaseStore, ownerId: 'o' }).acquire({ runId: 'r' })
  assert.equal((await resumed.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  await session.release({ status: 'failed' })
  assert.equal((await resumed.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  await resumed.release({ status: 'completed' })
})
