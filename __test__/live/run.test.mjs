// Whole runs, driven as the agent runtime drives them: batches, approvals, sub-agents, conflicts, abort.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import * as z from 'zod'
import { ConflictError, createDockerSandboxTools } from '../../index.js'
import { eventually, failureOf, lab } from '../support/live.mjs'
import { resumeRun, startRun, subAgentTool } from '../support/runtime.mjs'

const { containers, environment, leavesNothing } = lab()

/** An agent whose model plays `batches`, one a step, and then says "done". */
function agentOf(batches, { options, tools = {}, ...rest } = {}) {
  return {
    environment: environment(options),
    tools: { ...createDockerSandboxTools(), ...tools },
    model: ({ step }) => (step < batches.length ? { calls: batches[step] } : { text: 'done' }),
    ...rest,
  }
}

const write = (path, contents) => ({ name: 'sandbox_write_file', input: { path, contents } })
const read = path => ({ name: 'sandbox_read_file', input: { path } })
const shell = script => ({ name: 'sandbox_exec', input: { command: 'sh', args: ['-c', script] } })
const list = (input = {}) => ({ name: 'sandbox_list', input })
const results = state => state.messages.filter(({ role }) => role === 'tool').flatMap(message => message.results)
const values = state => results(state).map(({ value, error }) => value ?? error)

/** Approves everything until the run ends. */
async function toTheEnd(agent, request) {
  let state = await startRun(agent, request)
  for (let round = 0; state.status === 'waiting_approval' && round < 10; round++) {
    state = await resumeRun(agent, JSON.parse(JSON.stringify(state)))
  }
  return state
}

test('a run with approvals goes on in the same workspace, and ends with nothing left', async () => {
  const agent = agentOf(
    [[list()], [write('a.txt', 'one\n')], [shell('cat a.txt; echo two >>a.txt'), read('a.txt')], [read('a.txt')]],
    {
      options: { workspace: { files: [{ path: 'seed', contents: 's' }] } },
    },
  )
  const waiting = await startRun(agent, { runId: randomUUID(), scope: { tenantId: 't', userId: 'u' } })
  assert.equal(waiting.status, 'waiting_approval')
  const [kept] = await containers()
  const state = await resumeRun(agent, waiting)
  assert.equal(state.status, 'waiting_approval')
  assert.deepEqual(
    (await containers()).map(({ Id }) => Id),
    [kept.Id],
  )
  const done = await resumeRun(agent, state)
  assert.deepEqual([done.status, done.text], ['completed', 'done'])
  const [listed, written, ran, , last] = values(done)
  assert.deepEqual(
    listed.entries.map(({ path }) => path),
    ['seed'],
  )
  assert.deepEqual(written, { path: 'a.txt', size: 4 })
  assert.deepEqual([ran.stdout, ran.exitCode, ran.outcome], ['one\n', 0, 'exited'])
  assert.equal(last.contents, 'one\ntwo\n')
  assert.deepEqual(await containers(), [])
  await agent.environment.close()
})

test('one refusal rejects the whole batch before any of it ran', async () => {
  const agent = agentOf([[write('a', 'x'), shell('touch b'), read('../../etc/passwd')], [list()]])
  const state = await toTheEnd(agent, { runId: randomUUID() })
  assert.equal(state.status, 'completed')
  const found = values(state)
  for (const error of found.slice(0, 3))
    assert.match(error.message, /^The batch was refused: sandbox_read_file: .*"\.\."/)
  assert.deepEqual(found[3].entries, [])
  await agent.environment.close()
})

test('a command outside of the list is refused in words', async () => {
  const agent = agentOf([[{ name: 'sandbox_exec', input: { command: 'rm', args: ['-rf', '.'] } }]], {
    options: { shell: { allow: ['ls'] } },
  })
  const state = await toTheEnd(agent, { runId: randomUUID() })
  assert.match(values(state)[0].message, /"rm".*not allowed.*ls/)
  await agent.environment.close()
})

test('a call that the user refuses does not run', async () => {
  const agent = agentOf([[write('a', 'x'), write('b', 'y')], [list()]])
  const waiting = await startRun(agent, { runId: randomUUID() })
  const state = await resumeRun(agent, waiting, { approve: ['call-0-1'] })
  assert.equal(state.status, 'completed')
  assert.deepEqual(
    values(state)[2].entries.map(({ path }) => path),
    ['b'],
  )
  await agent.environment.close()
})

test('the calls of a batch run at the same time', async () => {
  // Each waits for the other: one after the other they would never end.
  const meet = (mine, other) => shell(`touch ${mine}; while [ ! -e ${other} ]; do sleep 0.05; done; echo met`)
  const agent = agentOf([[meet('a', 'b'), meet('b', 'a'), list()]])
  const state = await toTheEnd(agent, { runId: randomUUID() })
  assert.deepEqual(
    values(state)
      .slice(0, 2)
      .map(({ stdout }) => stdout),
    ['met\n', 'met\n'],
  )
  await agent.environment.close()
})

test("a sub-agent has a run of its own in the middle of its parent's call", async () => {
  const parentEnvironment = environment()
  const tools = createDockerSandboxTools()
  const child = {
    environment: parentEnvironment,
    tools: { sandbox_list: tools.sandbox_list },
    model: async ({ step, messages }) => {
      if (step === 0) return { calls: [list()] }
      const seen = messages.at(-1).results[0].value.entries.map(({ path }) => path)
      return { text: `${seen.join()} of ${(await containers()).length}` }
    },
  }
  const delegate = subAgentTool('delegate', child, z.object({ task: z.string() }))
  const batches = [[write('mine', 'x')], [{ name: 'delegate', input: { task: 'look' } }, read('mine')]]
  const agent = agentOf(batches, {
    tools: { delegate },
    options: { declaredTools: ['delegate'], workspace: { files: [{ path: 'seed', contents: 's' }] } },
  })
  child.environment = agent.environment
  const state = await toTheEnd(agent, { runId: randomUUID() })
  assert.equal(state.status, 'completed', JSON.stringify(state.error))
  // The child saw a fresh workspace, beside the parent's container; the parent has its own still.
  assert.deepEqual(values(state)[1], { text: 'seed of 2' })
  assert.equal(values(state)[2].contents, 'x')
  assert.deepEqual(await containers(), [])
  await agent.environment.close()
  await parentEnvironment.close()
})

test('a run that is aborted ends its command and its container', async () => {
  const agent = agentOf([[shell('touch begun; sleep 307; touch late')]], {})
  const controller = new AbortController()
  const exec = agent.tools.sandbox_exec
  const execute = async (input, context) => {
    const running = exec.execute(input, context)
    running.catch(() => undefined)
    const { executionEnvironment: session } = context
    await eventually('the command begins', async () => (await session.list()).entries.length === 1)
    controller.abort(new Error('enough'))
    return running
  }
  agent.tools.sandbox_exec = { ...exec, requiresApproval: false, execute }
  const running = startRun(agent, { runId: randomUUID(), abortSignal: controller.signal })
  const state = await running
  assert.deepEqual([state.status, state.error.code], ['cancelled', 'CANCELLED'])
  assert.deepEqual(await containers(), [])
  await agent.environment.close()
})

test('a tool that takes too long is cut, and the run goes on', async () => {
  const agent = agentOf([[shell('sleep 307')], [shell('echo on')]], { toolTimeoutMs: 1_000 })
  for (const name of ['sandbox_exec']) agent.tools[name] = { ...agent.tools[name], requiresApproval: false }
  const state = await startRun(agent, { runId: randomUUID() })
  assert.deepEqual([values(state)[0].code, values(state)[1].stdout], ['CANCELLED', 'on\n'])
  await agent.environment.close()
})

test('an error in the model fails the run and leaves nothing', async () => {
  const agent = agentOf([])
  agent.model = () => {
    throw new Error('model is down')
  }
  const state = await startRun(agent, { runId: randomUUID() })
  assert.deepEqual([state.status, state.error.message], ['failed', 'model is down'])
  assert.deepEqual(await containers(), [])
  await agent.environment.close()
})

test('of two that start one run at once, one loses with a ConflictError', async () => {
  const runId = randomUUID()
  const owner = environment()
  for (let round = 0; round < 3; round++) {
    const settled = await Promise.allSettled([owner.acquire({ runId }), owner.acquire({ runId })])
    const won = settled.filter(({ status }) => status === 'fulfilled')
    const lost = settled.filter(({ status }) => status === 'rejected')
    assert.deepEqual([won.length, lost.length], [1, 1])
    const { reason } = lost[0]
    assert.deepEqual([reason instanceof ConflictError, reason.name, reason.code], [true, 'ConflictError', undefined])
    const [{ value: session }] = won
    assert.deepEqual((await session.list()).entries, [])
    assert.equal((await containers()).length, 1)
    await session.release({ status: 'completed' })
  }
  await owner.close()
})

test('twenty that resume one run at once: one wins', async () => {
  const runId = randomUUID()
  const owner = environment()
  const first = await owner.acquire({ runId })
  await first.writeFile('f', 'kept')
  await first.release({ status: 'waiting_approval' })
  const settled = await Promise.allSettled(Array.from({ length: 20 }, () => owner.acquire({ runId })))
  const won = settled.filter(({ status }) => status === 'fulfilled')
  assert.equal(won.length, 1)
  for (const { reason } of settled.filter(({ status }) => status === 'rejected'))
    assert.ok(reason instanceof ConflictError, String(reason))
  assert.equal((await won[0].value.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await won[0].value.release({ status: 'completed' })
  await owner.close()
})

test('runs of different scopes with one id are apart', async () => {
  const owner = environment()
  const same = randomUUID()
  const scopes = [
    undefined,
    { tenantId: 'a' },
    { tenantId: 'b' },
    { tenantId: 'a', userId: 'b' },
    { tenantId: 'a', namespace: 'b' },
  ]
  const sessions = await Promise.all(scopes.map(scope => owner.acquire({ runId: same, ...(scope && { scope }) })))
  await Promise.all(sessions.map((session, index) => session.writeFile('who', String(index))))
  const found = await Promise.all(sessions.map(session => session.readFile('who', { encoding: 'utf8' })))
  assert.deepEqual(
    found.map(({ contents }) => contents),
    ['0', '1', '2', '3', '4'],
  )
  assert.equal((await containers()).length, 5)
  await Promise.all(sessions.map(session => session.release({ status: 'completed' })))
  await owner.close()
})

test('a changed environment may not resume, and removes nothing', async () => {
  const { createMemoryLeaseStore, createMemorySnapshotStore } = await import('../../index.js')
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  const owner = environment(stores)
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  await session.writeFile('f', 'kept')
  await session.release({ status: 'suspended' })
  const changes = [
    { id: 'other' },
    { workspace: { id: 'other' } },
    { limits: { memoryMb: 300 } },
    { limits: { pids: 65 } },
    { limits: { cpus: 1 } },
    { user: '1000' },
    { shell: 'deny' },
    { env: { NEW: 'x' } },
    { tmp: { sizeMb: 1 } },
    { version: '2' },
    { workspace: { exec: true } },
  ]
  for (const change of changes) {
    const other = environment({ ...stores, ...change })
    const error = await failureOf(other.acquire({ runId }))
    assert.ok(error instanceof ConflictError, `${JSON.stringify(change)}: ${error}`)
    await other.close()
    assert.equal((await containers()).length, 1)
  }
  // Values of variables are secrets and not part of it.
  const same = environment(stores)
  const again = await same.acquire({ runId })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await again.release({ status: 'completed' })
  await Promise.all([same.close(), owner.close()])
})

leavesNothing()
