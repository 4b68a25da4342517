// What an environment tells of runs on a real engine, over whichever transport.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, createMemorySnapshotStore } from '../../index.js'
import { codeOf, eventually, failureOf, lab, transport } from '../support/live.mjs'

const { client, containers, environment, leavesNothing } = lab()

/** An environment, and what it told, without times, durations and sentences. */
function listening(options) {
  const raw = []
  const owner = environment({ ...options, onEvent: event => raw.push(event) })
  const heard = () =>
    raw.map(({ at, message, durationMs, ...event }) => {
      assert.ok(Math.abs(Date.now() - at) < 120_000)
      assert.ok(message.length > 10)
      assert.ok(durationMs === undefined || (Number.isInteger(durationMs) && durationMs < 60_000))
      return event
    })
  /** Waits for the events that a promise may be a little ahead of. */
  const after = async (type, count = 1) => {
    await eventually(`${count} ${type}`, () => raw.filter(event => event.type === type).length === count)
    return heard()
  }
  return { owner, raw, after }
}

/** The events of one run; the rest of them is told for none. */
const events = runId => {
  const used = transport === 'exec' ? 'exec' : 'resident'
  return {
    acquired: how => ({ type: 'acquired', how, transport: used, runId }),
    operation: (operation, outcome, bytesIn, bytesOut) => ({
      type: 'operation',
      operation,
      outcome,
      bytesIn,
      bytesOut,
      runId,
    }),
    failed: (operation, code) => ({
      type: 'operation',
      operation,
      outcome: 'failed',
      code,
      bytesIn: 0,
      bytesOut: 0,
      runId,
    }),
    saved: bytes => ({ type: 'snapshot_saved', bytes, runId }),
    kept: (status, snapshotBytes) => ({ type: 'released', status, kept: true, snapshotBytes, runId }),
    removed: { type: 'released', status: 'completed', kept: false, runId },
    lost: { type: 'lease_lost', runId },
  }
}

test('a whole run in order, and nothing that is only the application\u2019s', async () => {
  const { owner, raw, after } = listening({ env: { KEY: 'SECRET-value' } })
  const runId = randomUUID()
  const of = events(runId)
  const first = await owner.acquire({ runId })
  await first.writeFile('SECRET-path', 'SECRET-contents')
  await first.readFile('SECRET-path', { limit: 6 })
  await first.list()
  const args = ['-c', 'cat; printf out; printf error >&2; exit 3', 'SECRET-argument']
  await first.exec({ command: 'sh', args, stdin: 'SECRET-stdin', env: { A: 'SECRET-variable' } })
  await first.exec({ command: 'sleep', args: ['300'], timeoutMs: 200 })
  assert.equal(await codeOf(first.readFile('SECRET-none')), 'NOT_FOUND')
  await first.release({ status: 'waiting_approval' })
  const second = await owner.acquire({ runId })
  await second.release({ status: 'completed' })
  await owner.sweep()
  await owner.close()
  const heard = await after('closed')
  const { bytes } = heard.find(({ type }) => type === 'snapshot_saved')
  assert.ok(bytes >= 2_048 && bytes % 512 === 0, String(bytes))
  assert.deepEqual(heard, [
    of.acquired('started'),
    of.operation('write_file', 'done', 15, 0),
    of.operation('read_file', 'done', 0, 6),
    of.operation('list', 'done', 0, 11),
    of.operation('exec', 'exited', 12, 20),
    of.operation('exec', 'timed_out', 0, 0),
    of.failed('read_file', 'NOT_FOUND'),
    of.saved(bytes),
    of.kept('waiting_approval', bytes),
    of.acquired('resumed'),
    of.removed,
    { type: 'swept', expiredRuns: 0, removedContainers: 0, failures: 0 },
    { type: 'closed' },
  ])
  assert.ok(!JSON.stringify(raw).includes('SECRET'))
})

test('a container that is killed: lost, once; then a release that cannot save', async () => {
  const { owner, after } = listening()
  const runId = randomUUID()
  const of = events(runId)
  const session = await owner.acquire({ runId })
  const [{ Id }] = await containers()
  await client.removeContainer(Id)
  for (let n = 0; n < 2; n++) assert.equal(await codeOf(session.list()), 'CONTAINER_LOST')
  await session.release({ status: 'suspended' })
  const [started, lost, ...rest] = await after('release_failed')
  assert.deepEqual(started, of.acquired('started'))
  const { reason, ...fields } = lost
  assert.deepEqual(fields, { type: 'container_lost', code: 'CONTAINER_LOST', runId })
  assert.ok(reason.includes(Id), reason)
  assert.deepEqual(rest, [
    of.failed('list', 'CONTAINER_LOST'),
    of.failed('list', 'CONTAINER_LOST'),
    { type: 'snapshot_failed', code: 'CONTAINER_LOST', runId },
    { type: 'release_failed', status: 'suspended', undone: 'snapshot', code: 'CONTAINER_LOST', runId },
  ])
  assert.equal(await codeOf(owner.acquire({ runId })), 'CONTAINER_LOST')
  await owner.close()
})

test('a container that is lost while its run waits: lost, then restored', async () => {
  const { owner, after } = listening()
  const runId = randomUUID()
  const of = events(runId)
  const first = await owner.acquire({ runId })
  await first.release({ status: 'suspended' })
  const [{ Id }] = await containers()
  await client.removeContainer(Id)
  const second = await owner.acquire({ runId })
  await second.release({ status: 'completed' })
  const heard = await after('released', 2)
  assert.deepEqual(heard.slice(3), [
    { type: 'container_lost', code: 'CONTAINER_LOST', reason: 'it is gone', runId },
    of.acquired('restored'),
    of.removed,
  ])
  await owner.close()
})

test('a take-over is told on both sides', async () => {
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  const [one, other] = [listening(stores), listening(stores)]
  const runId = randomUUID()
  const of = events(runId)
  const session = await one.owner.acquire({ runId })
  // As of a holder that has been silent for long: only what it writes tells others that it lives.
  const [key] = (await containers()).map(({ Labels }) => Labels['zhivex.sandbox.key'])
  const record = await stores.leaseStore.load(key)
  record.holder.heartbeatAt = 0
  assert.equal(await stores.leaseStore.save(record, record.fence), true)
  const taken = await other.owner.acquire({ runId })
  assert.equal((await failureOf(session.list())).name, 'ConflictError')
  await session.release({ status: 'failed' })
  await taken.list()
  await taken.release({ status: 'completed' })
  await Promise.all([one.owner.close(), other.owner.close()])
  assert.deepEqual(await one.after('closed'), [
    of.acquired('started'),
    of.lost,
    of.failed('list', 'CONFLICT'),
    { type: 'closed' },
  ])
  assert.deepEqual(await other.after('closed'), [
    of.acquired('taken_over'),
    of.operation('list', 'done', 0, 0),
    of.removed,
    { type: 'closed' },
  ])
})

test('a lease that is gone is told by the next heartbeat', async () => {
  const leaseStore = createMemoryLeaseStore()
  const { owner, after } = listening({ leaseStore, leaseMs: 1_000 })
  const runId = randomUUID()
  const of = events(runId)
  await owner.acquire({ runId })
  const [{ Id, Labels }] = await containers()
  const { key, fence } = await leaseStore.load(Labels['zhivex.sandbox.key'])
  assert.equal(await leaseStore.remove(key, fence), true)
  assert.deepEqual(await after('lease_lost'), [of.acquired('started'), of.lost])
  await owner.close()
  await client.removeContainer(Id)
})

leavesNothing()
