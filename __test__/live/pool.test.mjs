// Containers that wait for a run: each is used once, is a new one to its run in every way, and goes with its environment.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createFileLeaseStore, createFileSnapshotStore } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { codeOf, engine, eventually, lab, runProgram } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const labour = lab()
const { client, containers, leavesNothing, ownerId } = labour
const SIZE = 3

/** Over the resident transport, whichever the other files have: there is no pool without it. */
const environment = (options = {}) => labour.environment({ transport: 'resident', ...options })

/** An environment with a pool, what it told, and how to wait until the pool is full. */
function pooled(options = {}) {
  const events = []
  const owner = environment({ pool: { size: SIZE }, onEvent: event => events.push(event), ...options })
  const count = type => events.filter(event => event.type === type).length
  return { owner, events, full: made => eventually('the pool is full', () => count('pooled') === made, 30_000) }
}

/** The containers of this file that wait, as the engine has them. */
async function waiting() {
  const filters = JSON.stringify({ label: [`zhivex.sandbox.owner=${ownerId}`], name: ['/zhivex-sandbox-pool-'] })
  return engine('GET', `/containers/json?all=true&filters=${encodeURIComponent(filters)}`)
}

const how = events => events.filter(({ type }) => type === 'acquired').map(event => event.how)

test('without the resident transport it is refused, with what to do', () => {
  assert.throws(() => environment({ transport: 'exec', pool: { size: 1 } }), {
    code: 'UNSUPPORTED',
    message: /needs the resident/,
  })
})

test('the first run makes its own container, those after it find one, with all that was declared', async () => {
  const files = [{ path: 'a/b', contents: 'declared' }]
  const { owner, events, full } = pooled({ workspace: { files } })
  assert.deepEqual(await containers(), [])
  const first = await owner.acquire({ runId: randomUUID() })
  await full(SIZE)
  const before = await waiting()
  assert.equal(before.length, SIZE)
  const second = await owner.acquire({ runId: randomUUID() })
  await full(SIZE + 1)
  const after = await waiting()
  const taken = before.find(({ Id }) => !after.some(found => found.Id === Id))
  assert.equal(after.length, SIZE)
  const found = await client.inspectContainer(taken.Id)
  assert.match(found.Name, /^\/zhivex-sandbox-[0-9a-f]{24}$/)
  assert.equal((await second.readFile('a/b', { encoding: 'utf8' })).contents, 'declared')
  const { stdout } = await second.exec({ command: 'find', args: ['.', '-type', 'f'] })
  assert.equal(stdout, './a/b\n')
  // What was used is removed, and does not come back.
  await second.release({ status: 'completed' })
  assert.ok(!(await containers()).some(({ Id }) => Id === taken.Id))
  await first.release({ status: 'completed' })
  assert.equal((await containers()).length, SIZE)
  await owner.close()
  assert.deepEqual(await containers(), [])
  await eventually('the acquires are told', () => how(events).length === 2)
  assert.deepEqual(how(events), ['started', 'pooled'])
})

test('many runs at once, more than wait: each has a container of its own, and nothing of another', async () => {
  const { owner, events, full } = pooled()
  const first = await owner.acquire({ runId: randomUUID() })
  await full(SIZE)
  const runs = Array.from({ length: 12 }, () => randomUUID())
  const sessions = await Promise.all(runs.map(runId => owner.acquire({ runId })))
  const seen = await Promise.all(
    sessions.map(async (session, i) => {
      const { entries } = await session.list()
      await session.writeFile('mine', runs[i])
      const { stdout } = await session.exec({ command: 'cat', args: ['mine'] })
      return [entries.length, stdout]
    }),
  )
  assert.deepEqual(
    seen,
    runs.map(runId => [0, runId]),
  )
  for (const session of [first, ...sessions]) await session.release({ status: 'completed' })
  await owner.close()
  assert.deepEqual(await containers(), [])
  await eventually('the acquires are told', () => how(events).length === 13)
  assert.equal(how(events).filter(from => from === 'pooled').length >= SIZE, true)
})

test('a run that came out of the pool waits for an approval, and goes on in another process', async () => {
  const directory = temporaryDirectory()
  const stores = {
    leaseStore: createFileLeaseStore({ directory }),
    snapshotStore: createFileSnapshotStore({ directory }),
  }
  const { owner, full } = pooled(stores)
  const first = await owner.acquire({ runId: randomUUID() })
  await full(SIZE)
  const pool = await waiting()
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  await session.writeFile('kept', 'x')
  await session.release({ status: 'waiting_approval' })
  await first.release({ status: 'completed' })
  await owner.close()
  const before = await containers()
  assert.equal(before.length, 1)
  assert.ok(pool.some(({ Id }) => Id === before[0].Id))
  const other = environment(stores)
  const resumed = await other.acquire({ runId })
  assert.equal((await resumed.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  assert.deepEqual(
    (await containers()).map(({ Id }) => Id),
    [before[0].Id],
  )
  await resumed.release({ status: 'completed' })
  await other.close()
  assert.deepEqual(await containers(), [])
})

test('one that was killed or removed while it waited, and one of an image that was replaced, are passed over', async () => {
  const image = `sandbox-test/pool-${randomUUID().slice(0, 8)}`
  const tag = from => engine('POST', `/images/${from}/tag?repo=${image}&tag=latest`)
  await tag('sandbox-test/busybox')
  try {
    const { owner, full } = pooled({ image })
    const runs = [await owner.acquire({ runId: randomUUID() })]
    await full(SIZE)
    await client.killContainer((await waiting())[0].Id)
    runs.push(await owner.acquire({ runId: randomUUID() }))
    await full(SIZE + 2)
    for (const { Id } of await waiting()) await client.removeContainer(Id)
    runs.push(await owner.acquire({ runId: randomUUID() }))
    await full(SIZE + 2 + SIZE)
    const old = await waiting()
    await tag('sandbox-test/debian')
    const newer = await owner.acquire({ runId: randomUUID() })
    const { stdout } = await newer.exec({ command: 'cat', args: ['/etc/os-release'] })
    assert.match(stdout, /Debian/)
    runs.push(newer)
    await full(SIZE + 2 + SIZE + SIZE)
    const now = await waiting()
    assert.ok(now.every(({ Id }) => !old.some(found => found.Id === Id)))
    for (const session of runs) await session.release({ status: 'completed' })
    await owner.close()
  } finally {
    await engine('DELETE', `/images/${image}:latest`)
  }
  assert.deepEqual(await containers(), [])
})

test('the name of a run that has a container already is not given away', async () => {
  const runId = randomUUID()
  const holder = environment()
  const held = await holder.acquire({ runId })
  const { owner, full } = pooled()
  const first = await owner.acquire({ runId: randomUUID() })
  await full(SIZE)
  await assert.rejects(owner.acquire({ runId }), { name: 'ConflictError', message: /no lease in this lease store/ })
  assert.equal((await held.exec({ command: 'echo', args: ['on'] })).stdout, 'on\n')
  for (const session of [held, first]) await session.release({ status: 'completed' })
  await owner.close()
  await holder.close()
  assert.deepEqual(await containers(), [])
})

test('a run that is cancelled takes nothing with it', async () => {
  const controller = new AbortController()
  // In the midst of it: a container that waits is had so soon that an abort from here may come too late.
  const rule = { method: 'POST', path: /\/rename/, after: () => controller.abort() }
  await behindProxy([rule], async proxy => {
    const { owner, full } = pooled({ pool: { size: 1 }, socketPath: proxy.socketPath })
    const first = await owner.acquire({ runId: randomUUID() })
    await full(1)
    assert.equal(await codeOf(owner.acquire({ runId: randomUUID(), abortSignal: controller.signal })), 'CANCELLED')
    assert.ok(controller.signal.aborted)
    const again = await owner.acquire({ runId: randomUUID() })
    for (const session of [first, again]) await session.release({ status: 'completed' })
    await owner.close()
  })
  assert.deepEqual(await containers(), [])
})

test('a sweep removes the pool of a process that was killed, and not that of one that lives', async () => {
  const program = `
    const pooled = []
    const owner = api.createDockerSandboxEnvironment({ ...options, transport: 'resident', pool: { size: 2 },
      onEvent: event => event.type === 'pooled' && pooled.push(event) })
    // Both are let go with what is told when nobody holds them any more.
    globalThis.kept = [owner, await owner.acquire({ runId: '${randomUUID()}' })]
    const timer = setInterval(() => pooled.length === 2 && console.log('full'), 20)`
  let swept
  const ended = await runProgram(ownerId, program, {
    started: (child, stdout) => {
      if (swept || !stdout.includes('full')) return
      const owner = environment()
      swept = owner.sweep().then(report => {
        child.kill('SIGKILL')
        return [owner, report]
      })
    },
  })
  assert.equal(ended.signal, 'SIGKILL', ended.stderr)
  const [owner, report] = await swept
  assert.deepEqual(report.removedContainers, [])
  assert.equal((await waiting()).length, 2)
  const { removedContainers, failures } = await owner.sweep()
  assert.deepEqual(failures, [])
  // The run's own container too: its lease was in the memory of the process.
  assert.equal(removedContainers.length, 3)
  await owner.close()
  assert.deepEqual(await containers(), [])
})

leavesNothing()
