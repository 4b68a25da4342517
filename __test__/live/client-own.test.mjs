// Docker clients that the application wrote, over a real engine: one that wraps ours, and one that knows no more than the
// interface of version 0.2.1. Their sessions have the exec transport, whichever is asked for.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, createMemorySnapshotStore } from '../../index.js'
import { codeOf, eventually, failureOf, lab, sh, swept } from '../support/live.mjs'
import { PlainClient } from '../support/plain-client.mjs'

const { client, containers, environment, leavesNothing } = lab()

/** A wrapper: the environment takes it for the application's own, since any of its methods may be another. */
const wrapped = () => ({ ...client })
const CLIENTS = { wrapper: wrapped, plain: () => new PlainClient(client) }

const make = (own, options) => environment({ client: own, socketPath: undefined, transport: 'auto', ...options })

for (const [name, own] of Object.entries(CLIENTS)) {
  test(`a whole run [${name}]`, async () => {
    const owner = make(own(), { workspace: { files: [{ path: 'seed', contents: 's' }] } })
    const runId = randomUUID()
    const session = await owner.acquire({ runId })
    assert.equal(session.capabilities.transport, 'exec')
    assert.deepEqual([session.capabilities.raceFreePaths, session.manifest.assurance], [false, 'best-effort'])
    assert.equal((await session.writeFile('d/f', new Uint8Array([0, 255, 10]), { mode: 0o600 })).size, 3)
    assert.deepEqual([...(await session.readFile('d/f', { offset: 1 })).contents], [255, 10])
    assert.deepEqual(
      (await session.list('.', { depth: 2 })).entries.map(({ path, size, mode }) => [path, size, mode]),
      [
        ['d', 0, 0o755],
        ['d/f', 3, 0o600],
        ['seed', 1, 0o644],
      ],
    )
    assert.equal(await sh(session, 'id -u; pwd; echo err >&2'), '65534\n/workspace\n')
    assert.equal(await codeOf(session.readFile('none')), 'NOT_FOUND')
    await sh(session, 'ln -s /etc link')
    assert.equal(await codeOf(session.readFile('link/passwd')), 'PATH_INVALID')
    assert.equal(await codeOf(session.writeFile('link/new', 'x')), 'PATH_INVALID')
    const missing = await session.exec({ command: 'no-such-program' })
    assert.deepEqual([missing.outcome, missing.exitCode], ['not_started', null])

    await session.release({ status: 'waiting_approval' })
    const again = await owner.acquire({ runId })
    assert.equal(await sh(again, 'cat seed'), 's')
    await again.release({ status: 'suspended' })
    for (const { Id } of await containers()) await client.removeContainer(Id)
    const restored = await owner.acquire({ runId })
    assert.equal(await sh(restored, 'od -An -tx1 d/f; readlink link'), ' 00 ff 0a\n/etc\n')
    await restored.release({ status: 'completed' })
    assert.deepEqual(await containers(), [])
    await owner.close()
  })

  test(`what a command leaves is killed, whoever ended it [${name}]`, async () => {
    const owner = make(own())
    const session = await owner.acquire({ runId: randomUUID() })
    const left = () =>
      sh(session, 'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline"; echo; done | grep -c "sleep 30[0-9]" || :')
    const script = 'sleep 306 & (exec setsid sleep 307) & sleep 308'
    const late = await session.exec({ command: 'sh', args: ['-c', script], timeoutMs: 1_500 })
    assert.deepEqual([late.outcome, late.timedOut], ['timed_out', true])
    assert.equal(await left(), '0\n')
    const loud = await session.exec({ command: 'sh', args: ['-c', 'sleep 306 & yes'] })
    assert.deepEqual([loud.outcome, loud.truncated], ['output_limit', true])
    assert.equal(await left(), '0\n')
    const controller = new AbortController()
    const running = failureOf(
      session.exec({ command: 'sh', args: ['-c', `touch begun; ${script}`], signal: controller.signal }),
    )
    await eventually('it begins', async () => (await session.list()).entries.length === 1)
    controller.abort()
    assert.equal((await running).code, 'CANCELLED')
    assert.equal(await left(), '0\n')
    const done = await session.exec({ command: 'sh', args: ['-c', 'sleep 306 & (exec setsid sleep 307) & exit 3'] })
    assert.deepEqual([done.outcome, done.exitCode], ['exited', 3])
    assert.equal(await left(), '0\n')
    await session.release({ status: 'completed' })
    await owner.close()
  })

  test(`a container that is lost is told, with this client too [${name}]`, async () => {
    const owner = make(own())
    const session = await owner.acquire({ runId: randomUUID() })
    const [{ Id }] = await containers()
    await client.removeContainer(Id)
    for (const operation of [
      () => session.exec({ command: 'true' }),
      () => session.list(),
      () => session.readFile('f'),
      () => session.writeFile('f', 'x'),
    ])
      assert.equal(await codeOf(operation()), 'CONTAINER_LOST', String(operation))
    await session.release({ status: 'completed' })
    await owner.close()
  })
}

test('a wrapper may ask for "enforced"; one that leaves fields out may not have it', async () => {
  const owner = make(wrapped(), { assurance: 'enforced' })
  assert.equal(owner.manifest.assurance, 'enforced')
  const session = await owner.acquire({ runId: randomUUID() })
  await session.release({ status: 'completed' })
  await owner.close()
  const forgetful = {
    ...client,
    createContainer: ({ ipcMode: _ipcMode, ...spec }) => client.createContainer(spec),
  }
  const partly = make(forgetful, { assurance: 'enforced' })
  const error = await failureOf(partly.acquire({ runId: randomUUID() }))
  assert.deepEqual([error.code, /without: ipcMode none\./.test(error.message)], ['UNSUPPORTED', true], error.message)
  await partly.close()
  assert.deepEqual(await containers(), [])
})

test('a sweep removes by a wrapper what it would remove by ours, and nothing that has no name', async () => {
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  for (const [name, own] of Object.entries(CLIENTS)) {
    const owner = make(own(), { ...stores, leaseMs: 400 })
    const runId = randomUUID()
    await (await owner.acquire({ runId })).release({ status: 'suspended' })
    await new Promise(resolve => setTimeout(resolve, 500))
    assert.deepEqual(await owner.sweep(), swept({ expiredRuns: [runId] }), name)
    assert.deepEqual(await containers(), [], name)
    await owner.close()
  }
})

leavesNothing()
