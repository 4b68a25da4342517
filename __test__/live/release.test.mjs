// The end of a session: nothing stays, nothing works any more, and nothing is thrown.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createDockerSandboxTools } from '../../index.js'
import { codeOf, eventually, failureOf, lab, sh } from '../support/live.mjs'

const { client, containers, environment, inSession, leavesNothing, ownerId } = lab()
const TERMINAL = ['completed', 'failed', 'cancelled', 'timed_out']

/** A session that the test releases itself. */
async function open(options) {
  const owner = environment(options)
  return { owner, session: await owner.acquire({ runId: randomUUID() }) }
}

test('every status that ends a run removes the container', async () => {
  for (const status of TERMINAL) {
    const { session, owner } = await open()
    assert.equal((await containers()).length, 1)
    assert.equal(await session.release({ status, error: { message: 'x'.repeat(10_000) } }), undefined)
    assert.deepEqual(await containers(), [], status)
    await owner.close()
  }
})

test('after it every method and tool is refused, and says why', async () => {
  const { session, owner } = await open()
  await session.release({ status: 'completed' })
  const calls = {
    readFile: () => session.readFile('f'),
    writeFile: () => session.writeFile('f', 'x'),
    list: () => session.list(),
    exec: () => session.exec({ command: 'true' }),
    execute: () => session.execute({}, () => 'ran'),
  }
  const context = { executionEnvironment: session }
  const tools = createDockerSandboxTools()
  const inputs = {
    sandbox_read_file: { path: 'f' },
    sandbox_write_file: { path: 'f', contents: 'x' },
    sandbox_list: {},
    sandbox_exec: { command: 'true' },
  }
  for (const [name, input] of Object.entries(inputs)) calls[name] = () => tools[name].execute(input, context)
  for (const [name, call] of Object.entries(calls)) {
    const error = await failureOf(call())
    assert.deepEqual([error.name, error.code], ['SandboxError', 'RELEASED'], name)
    assert.match(error.message, /released.*acquire/, name)
  }
  const request = { tool: tools.sandbox_list, toolCall: {}, input: {}, phase: 'execute' }
  assert.equal((await session.authorize(request)).decision, 'deny')
  await owner.close()
})

test('twice, also at the same time and with another status', async () => {
  const { session, owner } = await open()
  const both = await Promise.all([
    session.release({ status: 'completed' }),
    session.release({ status: 'waiting_approval' }),
    session.release({ status: 'failed' }),
  ])
  assert.deepEqual(both, [undefined, undefined, undefined])
  assert.deepEqual(await containers(), [])
  assert.equal(await session.release({ status: 'completed' }), undefined)
  await owner.close()
})

test('running operations end, with RELEASED', async () => {
  const { session, owner } = await open()
  const running = [1, 2, 3].map(n => failureOf(session.exec({ command: 'sh', args: ['-c', `touch f${n}; sleep 304`] })))
  await eventually('the commands begin', async () => (await session.list()).entries.length === 3)
  const from = performance.now()
  await session.release({ status: 'cancelled' })
  assert.ok(performance.now() - from < 8_000)
  for (const error of await Promise.all(running)) assert.equal(error.code, 'RELEASED', error.message)
  assert.deepEqual(await containers(), [])
  await owner.close()
})

test('a keeping status ends running commands too, and keeps what they wrote', async () => {
  const owner = environment()
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  const running = failureOf(session.exec({ command: 'sh', args: ['-c', 'echo kept >f; sleep 304; echo late >g'] }))
  const sleepers = of =>
    sh(of, 'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline"; echo; done | grep -c "^sleep 30[4]" || :').then(
      Number,
    )
  await eventually('the command has written', async () => (await sleepers(session)) === 1)
  await session.release({ status: 'suspended' })
  assert.equal((await running).code, 'RELEASED')
  assert.equal((await containers()).length, 1)
  const again = await owner.acquire({ runId })
  try {
    assert.equal(await sh(again, 'cat f; ls'), 'kept\nf\n')
    assert.equal(await sleepers(again), 0)
  } finally {
    await again.release({ status: 'completed' })
    await owner.close()
  }
})

test('what is no request of release does not make it reject', async () => {
  const throwing = {
    get status() {
      throw new Error('no')
    },
  }
  const trap = new Proxy(
    {},
    {
      get() {
        throw new Error('no')
      },
    },
  )
  for (const request of [
    undefined,
    null,
    5,
    'completed',
    {},
    { status: 5 },
    { status: 'nonsense' },
    throwing,
    trap,
    { status: 'completed', error: trap },
  ]) {
    const { session, owner } = await open()
    assert.equal(await session.release(request), undefined)
    assert.equal(await codeOf(session.list()), 'RELEASED')
    assert.deepEqual(await containers(), [])
    await owner.close()
  }
})

test('a container that somebody removed, stopped or froze does not make it reject', async () => {
  for (const status of ['completed', 'waiting_approval']) {
    for (const act of [id => client.removeContainer(id), id => client.killContainer(id)]) {
      const owner = environment()
      const runId = randomUUID()
      const session = await owner.acquire({ runId })
      const [{ Id }] = await containers()
      await act(Id)
      assert.equal(await session.release({ status }), undefined)
      if (status === 'waiting_approval') {
        // There was no snapshot before, and none can be made: the run is lost, and says so.
        assert.equal(await codeOf(owner.acquire({ runId })), 'CONTAINER_LOST')
        for (const { Id: left } of await containers()) await client.removeContainer(left)
      }
      assert.deepEqual(await containers(), [])
      await owner.close()
    }
  }
})

test('leaving an await-using block completes the run', async () => {
  const { session, owner } = await open()
  await session[Symbol.asyncDispose]()
  assert.deepEqual(await containers(), [])
  await owner[Symbol.asyncDispose]()
  assert.equal(await codeOf(owner.acquire({ runId: 'r' })), 'RELEASED')
})

test('closing the environment ends what its sessions do', async () => {
  const owner = environment()
  const session = await owner.acquire({ runId: randomUUID() })
  const running = failureOf(session.exec({ command: 'sh', args: ['-c', 'touch f; sleep 304'] }))
  await eventually('the command begins', async () => (await session.list()).entries.length === 1)
  await owner.close()
  assert.equal((await running).code, 'RELEASED')
  assert.equal(await codeOf(session.list()), 'RELEASED')
  assert.equal(await session.release({ status: 'completed' }), undefined)
  assert.deepEqual(await containers(), [])
})

test('an acquire that is cancelled leaves nothing, whenever that is', () =>
  inSession({}, async () => {
    const owner = environment({ workspace: { files: [{ path: 'f', contents: 'x'.repeat(2 ** 20) }] } })
    for (const after of [0, 10, 30, 60, 100, 150, 200, 300]) {
      const controller = new AbortController()
      const reason = new Error('stop')
      const acquiring = owner.acquire({ runId: `${ownerId}-${after}`, abortSignal: controller.signal })
      const settled = acquiring.then(
        session => session.release({ status: 'completed' }),
        error => error,
      )
      await new Promise(resolve => setTimeout(resolve, after))
      controller.abort(reason)
      const error = await settled
      if (error) assert.deepEqual([error.code, error.cause], ['CANCELLED', reason])
      // The session around this test has one.
      assert.equal((await containers()).length, 1, `after ${after} ms`)
    }
    await owner.close()
  }))

leavesNothing()
