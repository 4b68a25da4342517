// The network that a run has with the exec transport: made for it, on record, and gone with it, whatever ends it.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, createMemorySnapshotStore } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { engine, failureOf, lab, runProgram, sh } from '../support/live.mjs'
import { reaching } from '../support/network.mjs'
import { silence } from '../support/stopping.mjs'
import { stopPoint } from '../support/wait.mjs'

const { client, ownerId, environment, containers, leavesNothing } = lab()

const exec = { transport: 'exec' }
const networks = async () =>
  (await engine('GET', '/networks')).filter(({ Labels }) => Labels?.['zhivex.sandbox.owner'] === ownerId)

test('it is internal, without IPv6, and in the lease', async () => {
  const leaseStore = createMemoryLeaseStore()
  const owner = environment({ ...reaching([443]).options, ...exec, leaseStore })
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    const [network] = await networks()
    assert.deepEqual([network.Internal, network.EnableIPv6, network.Driver], [true, false, 'bridge'])
    const [lease] = await leaseStore.list(ownerId)
    assert.equal(lease.networkId, network.Id)
    assert.deepEqual((await sh(session, 'cat /proc/net/if_inet6 | grep -v " lo$" || true')).trim(), '')
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
  assert.deepEqual(await networks(), [])
})

for (const [what, path] of [
  ['created', /^\/containers\/create/],
  ['started', /^\/containers\/[^/]+\/start/],
  ['filled', /^\/containers\/[^/]+\/exec/],
]) {
  test(`a container that cannot be ${what} leaves no network`, () =>
    behindProxy([{ method: 'POST', path, status: 500 }], async proxy => {
      const workspace = { files: [{ path: 'a', contents: 'a' }] }
      const owner = environment({ ...reaching([443]).options, ...exec, workspace, socketPath: proxy.socketPath })
      await failureOf(owner.acquire({ runId: randomUUID() }))
      await owner.close()
      assert.deepEqual([await networks(), await containers()], [[], []])
    }))
}

test('a run that another process has is a conflict, and its network stays', async () => {
  const one = environment({ ...reaching([443]).options, ...exec })
  const other = environment({ ...reaching([443]).options, ...exec, leaseStore: createMemoryLeaseStore() })
  const runId = randomUUID()
  const session = await one.acquire({ runId })
  const made = await networks()
  try {
    const { name, message } = await failureOf(other.acquire({ runId }))
    assert.equal(name, 'ConflictError')
    assert.match(message, /^This run has a container \(zhivex-sandbox-\w+\) and no lease in this lease store: /)
    assert.deepEqual(await networks(), made)
  } finally {
    await session.release({ status: 'completed' })
    await Promise.all([one.close(), other.close()])
  }
  assert.deepEqual(await networks(), [])
})

test('of many that want one run at once one has it, and its network', async () => {
  const leaseStore = createMemoryLeaseStore()
  const owners = Array.from({ length: 6 }, () => environment({ ...reaching([443]).options, ...exec, leaseStore }))
  const runId = randomUUID()
  const settled = await Promise.allSettled(owners.map(owner => owner.acquire({ runId })))
  const sessions = settled.flatMap(({ value }) => value ?? [])
  const reasons = settled.flatMap(({ reason }) => reason ?? [])
  const left = await networks()
  await Promise.all(sessions.map(session => session.release({ status: 'completed' })))
  await Promise.all(owners.map(owner => owner.close()))
  assert.equal(sessions.length, 1)
  for (const { name, message } of reasons) assert.equal(name, 'ConflictError', message)
  assert.equal(left.length, 1)
  assert.deepEqual(await networks(), [])
})

// An engine may give several networks one name where they are asked for at once, and then starts no container in any of them:
// nobody had the run.
test('one that has made its network keeps nobody from the run', async () => {
  const options = { ...reaching([443]).options, ...exec, leaseStore: createMemoryLeaseStore() }
  const runId = randomUUID()
  const { reached, stop, goOn } = stopPoint()
  await behindProxy([{ method: 'POST', path: /^\/containers\/create/, before: stop }], async slowly => {
    const [slow, quick] = [environment({ ...options, socketPath: slowly.socketPath }), environment(options)]
    const late = failureOf(slow.acquire({ runId }))
    await reached
    const session = await quick.acquire({ runId })
    const names = (await networks()).map(({ Name }) => Name)
    assert.equal(new Set(names).size, 2)
    goOn()
    const { name, message } = await late
    assert.equal(name, 'ConflictError', message)
    assert.equal(await sh(session, 'echo works'), 'works\n')
    assert.equal((await networks()).length, 1)
    await session.release({ status: 'completed' })
    await Promise.all([slow.close(), quick.close()])
  })
  assert.deepEqual([await networks(), await containers()], [[], []])
})

test('an engine without a free address range says so, and what to do', () =>
  behindProxy(
    [
      {
        method: 'POST',
        path: /^\/networks\/create/,
        status: 500,
        message: 'could not find an available, non-overlapping IPv4 address pool among the defaults',
      },
    ],
    async proxy => {
      const owner = environment({ ...reaching([443]).options, ...exec, socketPath: proxy.socketPath })
      const error = await failureOf(owner.acquire({ runId: randomUUID() }))
      assert.equal(error.code, 'LIMIT', error.message)
      assert.match(error.message, /address range.*docker network prune.*resident transport/s)
      await owner.close()
    },
  ))

test('what a killed host left is swept, the network too', async () => {
  const network = { mode: 'allowlist', allowedDomains: ['good.test'] }
  const program = `
    const mine = api.createDockerSandboxEnvironment({ ...options, transport: 'exec', network: ${JSON.stringify(network)} })
    await mine.acquire({ runId: ${JSON.stringify(randomUUID())} })
    process.kill(process.pid, 'SIGKILL')`
  const { signal, stderr } = await runProgram(ownerId, program)
  assert.deepEqual([signal, stderr], ['SIGKILL', ''])
  const [left] = await networks()
  assert.ok(left)
  const owner = environment({ ...exec, network })
  const report = await owner.sweep()
  if (left.Labels['zhivex.sandbox.maker'] === '') {
    // A machine without an id cannot know that the process is dead.
    for (const { Id } of await containers()) await client.removeContainer(Id)
    await client.removeNetwork(left.Id)
  } else {
    assert.deepEqual([report.removedNetworks, report.failures], [[left.Name], []])
  }
  await owner.close()
  assert.deepEqual([await networks(), await containers()], [[], []])
})

test('a holder that was stopped while it made the network of a restore leaves that of the next one', async () => {
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  const options = { ...reaching([443]).options, ...exec, ...stores }
  const runId = randomUUID()
  const firstOwner = environment(options)
  const first = await firstOwner.acquire({ runId })
  await first.writeFile('f', 'kept')
  await first.release({ status: 'suspended' })
  for (const { Id } of await containers()) await client.removeContainer(Id)
  const { reached, stop, goOn } = stopPoint()
  const held = () => stop().then(() => false)
  await behindProxy([{ method: 'POST', path: /^\/networks\/create/, before: held }], async slowly => {
    const slow = environment({ ...options, socketPath: slowly.socketPath })
    const stopped = failureOf(slow.acquire({ runId }))
    await reached
    await silence(stores.leaseStore, ownerId)
    // It goes on when the next one has a network, and no container in it yet.
    const meanwhile = async () => {
      goOn()
      await stopped
    }
    await behindProxy([{ method: 'POST', path: /^\/containers\/create/, before: meanwhile }], async proxy => {
      const next = environment({ ...options, socketPath: proxy.socketPath })
      const session = await next.acquire({ runId })
      assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'kept')
      assert.match(await sh(session, 'wget -O - http://bad.test/ 2>&1 || true'), /403/)
      await session.release({ status: 'completed' })
      await next.close()
    })
    await slow.close()
  })
  await firstOwner.close()
  assert.deepEqual(await networks(), [])
})

test('a lease that expired takes the network with it', async () => {
  const owner = environment({ ...reaching([443]).options, ...exec, leaseMs: 300 })
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  await session.release({ status: 'suspended' })
  assert.equal((await networks()).length, 1)
  await new Promise(resolve => setTimeout(resolve, 400))
  assert.deepEqual((await owner.sweep()).expiredRuns, [runId])
  assert.deepEqual(await networks(), [])
  await owner.close()
})

leavesNothing()
