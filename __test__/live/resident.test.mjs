// The resident transport: the same session over our own process 1.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { behindProxy } from '../support/engine-proxy.mjs'
import { engine, eventually, failureOf, lab } from '../support/live.mjs'
import { Leases, Snapshots } from '../support/stores.mjs'

const { client, environment, onBoth, inSession, containers } = lab()
const resident = { transport: 'resident' }

onBoth('files go in and out, and are listed', resident, async session => {
  assert.equal(session.capabilities.transport, 'resident')
  await session.writeFile('ordner/größe ✓/a.txt', 'héllo')
  assert.equal((await session.readFile('ordner/größe ✓/a.txt', { encoding: 'utf8' })).contents, 'héllo')
  const part = await session.readFile('ordner/größe ✓/a.txt', { encoding: 'utf8', offset: 2, limit: 3 })
  assert.deepEqual([part.contents, part.size, part.truncated], ['ll', 6, true])
  const { entries } = await session.list('.', { depth: 5 })
  assert.deepEqual(
    entries.map(({ path, type, size }) => [path, type, size]),
    [
      ['ordner', 'directory', 0],
      ['ordner/größe ✓', 'directory', 0],
      ['ordner/größe ✓/a.txt', 'file', 6],
    ],
  )
})

onBoth('commands end as they did, signals included', resident, async session => {
  const sh = (script, options = {}) => session.exec({ command: 'sh', args: ['-c', script], ...options })
  const done = await sh('echo out; echo err >&2; exit 5')
  assert.deepEqual([done.outcome, done.exitCode, done.stdout, done.stderr], ['exited', 5, 'out\n', 'err\n'])
  const killed = await sh('kill -SEGV $$')
  assert.deepEqual([killed.outcome, killed.exitCode, killed.signal], ['signaled', null, 'SIGSEGV'])
  assert.equal((await sh('exit 137')).exitCode, 137)
  const late = await sh('sleep 300 & wait', { timeoutMs: 200 })
  assert.deepEqual([late.outcome, late.timedOut, late.exitCode], ['timed_out', true, 137])
  const missing = await session.exec({ command: 'no-such-program' })
  assert.deepEqual([missing.outcome, missing.exitCode], ['not_started', null])
  const much = await sh('yes')
  assert.deepEqual([much.outcome, much.stdout.length], ['output_limit', 1024 * 1024])
  const echoed = await session.exec({ command: 'cat', stdin: 'x'.repeat(300_000) })
  assert.equal(echoed.stdout.length, 300_000)
  await sh('setsid sleep 303 >/dev/null 2>&1 & (env -i setsid sleep 303 >/dev/null 2>&1 &); exit 0')
  const left = await sh('for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline"; echo; done | grep -c "^sleep 303" || :')
  assert.equal(left.stdout, '0\n')
})

onBoth('links that a command made are never followed', resident, async session => {
  await session.exec({ command: 'sh', args: ['-c', 'mkdir d; echo x >d/f; ln -s d l; ln -s /etc/hosts out; mkfifo p'] })
  for (const path of ['l/f', 'out', 'p', 'd']) {
    await assert.rejects(session.readFile(path), { code: 'PATH_INVALID' }, path)
    await assert.rejects(session.writeFile(path, 'y'), { code: 'PATH_INVALID' }, path)
  }
  await assert.rejects(session.list('l'), { code: 'PATH_INVALID' })
  await assert.rejects(session.readFile('nope'), { code: 'NOT_FOUND' })
})

test('a signal ends three commands at once, and the session goes on', () =>
  inSession(resident, async session => {
    const controller = new AbortController()
    const reason = new Error('enough')
    const calls = [1, 2, 3].map(() =>
      session.exec({ command: 'sleep', args: ['300'], signal: controller.signal }).catch(error => error),
    )
    await session.exec({ command: 'true' })
    controller.abort(reason)
    for (const error of await Promise.all(calls)) {
      assert.equal(error.code, 'CANCELLED')
      assert.equal(error.cause, reason)
    }
    assert.equal((await session.exec({ command: 'echo', args: ['on'] })).stdout, 'on\n')
  }))

test('a run that waited goes on in its container; one whose container was lost, from its snapshot', async () => {
  const owner = environment(resident)
  const runId = randomUUID()
  const first = await owner.acquire({ runId })
  await first.writeFile('kept/a', 'x')
  await first.release({ status: 'waiting_approval' })
  const second = await owner.acquire({ runId })
  assert.equal((await second.readFile('kept/a', { encoding: 'utf8' })).contents, 'x')
  await second.writeFile('kept/b', 'y')
  await second.release({ status: 'suspended' })
  const [{ Id }] = await containers()
  const { createNodeDockerClient } = await import('../../index.js')
  await createNodeDockerClient({ socketPath: process.env.SANDBOX_TEST_SOCKET }).removeContainer(Id)
  const third = await owner.acquire({ runId })
  assert.equal((await third.readFile('kept/b', { encoding: 'utf8' })).contents, 'y')
  await third.release({ status: 'completed' })
  assert.deepEqual(await containers(), [])
  await owner.close()
})

/** A run that waits for its next holder, with a file `kept` in it, and its container. */
async function kept(options = {}) {
  const owner = environment({ ...resident, ...options })
  const runId = randomUUID()
  const first = await owner.acquire({ runId })
  await first.writeFile('kept', 'x')
  await first.release({ status: 'waiting_approval' })
  const [{ Id }] = await containers()
  return { owner, runId, Id }
}

test('a run that was kept, and whose process 1 does not answer, goes on from its snapshot', async () => {
  const events = []
  const { owner, runId, Id } = await kept({ onEvent: event => events.push(event) })
  process.kill((await client.inspectContainer(Id)).State.Pid, 'SIGSTOP')
  const second = await owner.acquire({ runId })
  assert.equal((await second.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  const now = await containers()
  assert.equal(now.length, 1)
  assert.notEqual(now[0].Id, Id)
  await second.release({ status: 'completed' })
  assert.deepEqual(await containers(), [])
  await owner.close()
  await eventually('all of it is told', () => events.at(-1)?.type === 'closed')
  const told = events.filter(({ type }) => ['acquired', 'container_lost'].includes(type))
  assert.deepEqual(
    told.map(({ type, runId: of, how, transport, code }) => [type, of, how ?? code, transport]),
    [
      ['acquired', runId, 'started', 'resident'],
      ['container_lost', runId, 'CONTAINER_LOST', undefined],
      ['acquired', runId, 'restored', 'resident'],
    ],
  )
  assert.match(told[1].reason, /supervisor did not answer within \d+ s/)
})

test('such a run whose snapshot cannot be read now can be acquired again at once', async () => {
  const snapshotStore = new Snapshots()
  const { owner, runId, Id } = await kept({ snapshotStore })
  process.kill((await client.inspectContainer(Id)).State.Pid, 'SIGSTOP')
  snapshotStore.overrides.load = () => Promise.reject(new Error('the store is away'))
  await assert.rejects(owner.acquire({ runId }), { message: /snapshotStore.load/ })
  snapshotStore.overrides = {}
  const second = await owner.acquire({ runId })
  assert.equal((await second.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  await second.release({ status: 'completed' })
  assert.deepEqual(await containers(), [])
  await owner.close()
})

test('a run that was kept and is paused says so, and goes on when it thaws', async () => {
  const { owner, runId, Id } = await kept()
  await engine('POST', `/containers/${Id}/pause`)
  await assert.rejects(owner.acquire({ runId }), { code: 'DOCKER_API', message: /is paused. Unpause it/ })
  await engine('POST', `/containers/${Id}/unpause`)
  const second = await owner.acquire({ runId })
  assert.equal((await second.readFile('kept', { encoding: 'utf8' })).contents, 'x')
  assert.equal((await containers())[0].Id, Id)
  await second.release({ status: 'completed' })
  await owner.close()
})

test('a holder that slept while another took its run over spares the container when its stream breaks', async () => {
  await behindProxy([], async proxy => {
    const leaseStore = new Leases()
    const owner = environment({ ...resident, socketPath: proxy.socketPath, leaseStore })
    const session = await owner.acquire({ runId: randomUUID() })
    const [{ Id }] = await containers()
    const command = await session.execStream({ command: 'sh', args: ['-c', 'echo up; exec sleep 300'] })
    await command[Symbol.asyncIterator]().next()
    const [lease] = leaseStore.all()
    leaseStore.put({ ...lease, fence: lease.fence + 1 })
    for (const stream of proxy.streams) stream.destroy()
    const error = await failureOf(command.result)
    assert.equal(error.name, 'ConflictError', error.message)
    assert.match(error.message, /was taken over by another holder/)
    assert.equal((await client.inspectContainer(Id)).State.Running, true)
    await session.release({ status: 'completed' })
    await owner.close()
    await client.removeContainer(Id)
  })
})

test('a released session that the application keeps holds no stream to its container open', async () => {
  await behindProxy([], async proxy => {
    const owner = environment({ ...resident, socketPath: proxy.socketPath })
    const runId = randomUUID()
    const first = await owner.acquire({ runId })
    assert.ok(proxy.streams.size > 0)
    await first.release({ status: 'suspended' })
    await eventually('no stream is open', () => proxy.streams.size === 0)
    const second = await owner.acquire({ runId })
    await second.release({ status: 'completed' })
    await assert.rejects(first.list(), { code: 'RELEASED' })
    await owner.close()
  })
})
