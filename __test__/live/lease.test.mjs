// Leases that end, hosts that die, and what a sweep removes.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, createMemorySnapshotStore } from '../../index.js'
import { BUSYBOX, codeOf, engine, eventually, failureOf, lab, runProgram, swept } from '../support/live.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

test('an expired lease is LEASE_EXPIRED, never an empty workspace, and its container is gone', async () => {
  const owner = environment({ leaseMs: 300 })
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  await session.writeFile('f', 'x')
  await session.release({ status: 'waiting_approval' })
  assert.equal((await containers()).length, 1)
  await pause(400)
  const error = await failureOf(owner.acquire({ runId }))
  assert.equal(error.code, 'LEASE_EXPIRED')
  assert.match(error.message, /expired/)
  assert.deepEqual(await containers(), [])
  // After that the id is free.
  const fresh = await owner.acquire({ runId })
  assert.deepEqual((await fresh.list()).entries, [])
  await fresh.release({ status: 'completed' })
  await owner.close()
})

test('while held a lease does not end', async () => {
  const owner = environment({ leaseMs: 1_000 })
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  await session.writeFile('f', 'kept')
  await pause(2_000)
  assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  assert.equal((await failureOf(owner.acquire({ runId }))).name, 'ConflictError')
  assert.deepEqual((await owner.sweep()).expiredRuns, [])
  await session.release({ status: 'completed' })
  await owner.close()
})

test('a sweep ends expired leases of its owner and no other', async () => {
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  const [mine, other] = [
    environment({ leaseMs: 2_000, ...stores }),
    environment({ leaseMs: 2_000, ...stores, ownerId: `${ownerId}-other` }),
  ]
  const runs = { expired: randomUUID(), other: randomUUID(), held: randomUUID() }
  const held = await mine.acquire({ runId: runs.held })
  for (const [owner, runId] of [
    [other, runs.other],
    [mine, runs.expired],
  ]) {
    const session = await owner.acquire({ runId })
    await session.release({ status: 'suspended' })
  }
  assert.deepEqual(await mine.sweep(), swept())
  await pause(2_100)
  assert.deepEqual(await mine.sweep(), swept({ expiredRuns: [runs.expired] }))
  assert.equal((await containers()).length, 1)
  assert.equal((await client.listContainers(`zhivex.sandbox.owner=${ownerId}-other`)).length, 1)
  assert.deepEqual((await held.list()).entries, [])
  await held.release({ status: 'completed' })
  assert.deepEqual(await other.sweep(), swept({ expiredRuns: [runs.other] }))
  await Promise.all([mine.close(), other.close()])
})

/** A process that acquires a run and dies without a word; its container. */
async function orphan(runId) {
  const program = `await environment.acquire({ runId: ${JSON.stringify(runId)} }); process.kill(process.pid, 'SIGKILL')`
  const { signal, stderr } = await runProgram(ownerId, program)
  assert.deepEqual([signal, stderr], ['SIGKILL', ''])
  const [{ Id }] = await containers()
  const { Config, Name } = await client.inspectContainer(Id)
  // A machine without an id cannot know that the process is dead; then the container is left alone for two minutes.
  const orphans = Config.Labels['zhivex.sandbox.maker'] === '' ? [] : [Name.slice(1)]
  return { Id, Config, orphans }
}

test('a container whose host died is swept, and what only looks like one of ours is not', async () => {
  const { Id: orphanId, Config, orphans } = await orphan(randomUUID())
  const create = (name, labels) =>
    engine('POST', `/containers/create?name=${name}`, {
      Image: BUSYBOX,
      Cmd: ['true'],
      Labels: { ...Config.Labels, ...labels },
      HostConfig: { NetworkMode: 'none' },
    })
  const [one, two, three] = [1, 2, 3].map(() => randomBytes(32).toString('hex'))
  const named = key => `zhivex-sandbox-${key.slice(0, 24)}`
  const strangers = [
    // Labels are inherited by images that are made from our containers; the name is not.
    await create(`stranger-${randomUUID()}`, {}),
    await create(named(one), { 'zhivex.sandbox.key': 'f'.repeat(64) }),
    // Everything right, of another owner or environment.
    await create(named(two), { 'zhivex.sandbox.key': two, 'zhivex.sandbox.owner': `${ownerId}-x` }),
    await create(named(three), {
      'zhivex.sandbox.key': three,
      'zhivex.sandbox.fingerprint': `sha256:${'0'.repeat(64)}`,
    }),
  ]
  const owner = environment()
  try {
    const live = await owner.acquire({ runId: randomUUID() })
    const report = await owner.sweep()
    assert.deepEqual(report, swept({ removedContainers: orphans }))
    if (orphans.length === 0) await client.removeContainer(orphanId)
    assert.equal(await codeOf(client.inspectContainer(orphanId)), 'NOT_FOUND')
    for (const { Id } of strangers) assert.equal((await client.inspectContainer(Id)).Id, Id)
    assert.deepEqual((await live.list()).entries, [])
    await live.release({ status: 'completed' })
  } finally {
    for (const { Id } of strangers) await client.removeContainer(Id)
    await owner.close()
  }
})

test('a run without a lease whose container still stands is a conflict, until it is swept', async () => {
  const runId = randomUUID()
  const { Id, orphans } = await orphan(runId)
  const owner = environment()
  const error = await failureOf(owner.acquire({ runId }))
  assert.equal(error.name, 'ConflictError')
  assert.match(error.message, /sweep/)
  assert.deepEqual((await owner.sweep()).removedContainers, orphans)
  if (orphans.length === 0) await client.removeContainer(Id)
  const session = await owner.acquire({ runId })
  await session.release({ status: 'completed' })
  await owner.close()
})

test('a container that is being made is not swept', async () => {
  const owner = environment()
  const acquiring = Promise.all(
    Array.from({ length: 4 }, (_, index) => owner.acquire({ runId: `${ownerId}-${index}` })),
  )
  let made = false
  acquiring.finally(() => (made = true)).catch(() => undefined)
  await eventually('all are made', async () => {
    assert.deepEqual((await owner.sweep()).removedContainers, [])
    return made
  })
  for (const session of await acquiring) {
    assert.deepEqual((await session.list()).entries, [])
    await session.release({ status: 'completed' })
  }
  await owner.close()
})

leavesNothing()
