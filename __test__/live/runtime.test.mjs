// Runs as the agent runtime drives them, each invocation in a process of its own, over stores in files: approved, denied,
// cancelled, timed out, failed, with a sub-agent, with a worker that died, and with one that lost its run and comes back.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually, lab, plainOptions, runProgram } from '../support/live.mjs'

const { containers, leavesNothing, ownerId } = lab()
const directory = mkdtempSync(join(tmpdir(), 'sandbox-live-runtime-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const RUNTIME = JSON.stringify(new URL('../support/runtime.mjs', import.meta.url).href)
const OPTIONS = {
  ...plainOptions(ownerId),
  declaredTools: ['delegate'],
  workspace: { id: 'w', files: [{ path: 'seed', contents: 's' }] },
  limits: { cpus: 2, commandTimeoutMs: 60_000 },
}
/** A machine without an id cannot tell that a process of it has ended; then a holder is dead when it is silent. */
const hasMachineId = existsSync('/etc/machine-id') && readFileSync('/etc/machine-id', 'utf8').trim() !== ''

/**
 * One invocation: an agent whose model plays `batches`, one a step. `invoke` is what the process does with it, and gives
 * the run's state. Resolves to that; `started` is told the process and what it has printed.
 */
async function inProcess(batches, invoke, { started, ends = [0, null] } = {}) {
  const program = `
    const { startRun, resumeRun, subAgentTool } = await import(${RUNTIME})
    const events = []
    const agent = {
      environment: api.createDockerSandboxEnvironment({
        ...${JSON.stringify(OPTIONS)},
        leaseStore: api.createFileLeaseStore({ directory: ${JSON.stringify(directory)} }),
        snapshotStore: api.createFileSnapshotStore({ directory: ${JSON.stringify(directory)} }),
        onEvent: event => events.push(event.type),
      }),
      tools: api.createDockerSandboxTools(),
      model: ({ step }) => (step < batches.length ? { calls: batches[step] } : { text: 'done' }),
    }
    const batches = ${JSON.stringify(batches)}
    const state = await (async () => { ${invoke} })()
    await agent.environment.close()
    console.log('state ' + JSON.stringify({ ...state, events }))`
  const { code, signal, stdout, stderr } = await runProgram(ownerId, program, { started, timeoutMs: 55_000 })
  assert.deepEqual([code, signal, stderr], [...ends, ''], stdout)
  const line = stdout.split('\n').find(text => text.startsWith('state '))
  return line === undefined ? undefined : JSON.parse(line.slice(6))
}

const begin = (batches, request = { runId: randomUUID() }) =>
  inProcess(batches, `return startRun(agent, ${JSON.stringify(request)})`)
const resume = (batches, state, more = '{}', options = {}) =>
  inProcess(batches, `return resumeRun(agent, ${JSON.stringify(state)}, ${more})`, options)

const write = (path, contents) => ({ name: 'sandbox_write_file', input: { path, contents } })
const read = path => ({ name: 'sandbox_read_file', input: { path } })
const list = { name: 'sandbox_list', input: {} }
const shell = script => ({ name: 'sandbox_exec', input: { command: 'sh', args: ['-c', script] } })
const values = state =>
  state.messages
    .filter(({ role }) => role === 'tool')
    .flatMap(({ results }) => results)
    .map(({ value, error }) => value ?? error)
const names = listed => listed.entries.map(({ path }) => path)
const kept = () => readdirSync(directory).filter(name => !name.startsWith('.lock-'))
const isOver = async () => assert.deepEqual([await containers(), kept()], [[], []])
const waits = async state => {
  assert.equal(state.status, 'waiting_approval', JSON.stringify(state.error))
  assert.deepEqual([(await containers()).length, kept().length], [1, 2])
}

test('approved: three processes, one workspace', async () => {
  const batches = [[write('f', 'one ')], [shell('printf two >>f; cat f')], [list]]
  const first = await begin(batches, { runId: randomUUID(), scope: { tenantId: 't', userId: 'u' } })
  await waits(first)
  const second = await resume(batches, first)
  await waits(second)
  const done = await resume(batches, second)
  assert.deepEqual([done.status, done.text], ['completed', 'done'])
  const [written, ran, listed] = values(done)
  assert.deepEqual([written.size, ran.stdout, names(listed)], [4, 'one two', ['f', 'seed']])
  await isOver()
})

test('denied: the model is told, and nothing was written', async () => {
  const batches = [[write('f', 'x'), list], [list]]
  const first = await begin(batches)
  await waits(first)
  const done = await resume(batches, first, '{ approve: [] }')
  const [refused, ...listed] = values(done)
  assert.deepEqual([done.status, refused.message], ['completed', 'The user refused this call.'])
  assert.deepEqual(listed.map(names), [['seed'], ['seed']])
  await isOver()
})

const BEGUN = 'touch begun; sleep 308; touch late'
/** Ends `signal` once the command has begun. */
const WHEN_BEGUN = `
  const exec = agent.tools.sandbox_exec.execute
  agent.tools.sandbox_exec = { ...agent.tools.sandbox_exec, execute: (input, context) => {
    const running = exec(input, context)
    const look = setInterval(async () => {
      const { entries } = await context.executionEnvironment.list().catch(() => ({ entries: [] }))
      if (entries.some(({ path }) => path === 'begun')) { clearInterval(look); begun() }
    }, 100)
    return running.finally(() => clearInterval(look))
  } }`

for (const [status, reason] of [
  ['cancelled', 'new Error("enough")'],
  ['timed_out', 'new DOMException("late", "TimeoutError")'],
]) {
  test(`${status}: the command ends, and all that the run had is gone`, async () => {
    const batches = [[shell(BEGUN)]]
    const first = await begin(batches)
    await waits(first)
    const done = await inProcess(
      batches,
      `const controller = new AbortController()
      const begun = () => controller.abort(${reason})
      ${WHEN_BEGUN}
      return resumeRun(agent, ${JSON.stringify(first)}, { abortSignal: controller.signal })`,
    )
    assert.deepEqual([done.status, done.error.code], [status, 'CANCELLED'])
    await isOver()
  })
}

test('a call that takes too long is cut, and the run goes on', async () => {
  const batches = [[shell(BEGUN)], [list]]
  const first = await begin(batches)
  const done = await inProcess(
    batches,
    `agent.toolTimeoutMs = 3_000
    return resumeRun(agent, ${JSON.stringify(first)})`,
  )
  const [cut, listed] = values(done)
  assert.deepEqual([done.status, cut.code, names(listed)], ['completed', 'CANCELLED', ['begun', 'seed']])
  await isOver()
})

test('failed: an error of the model after work was done', async () => {
  const batches = [[write('f', 'x')]]
  const first = await begin(batches)
  await waits(first)
  const done = await inProcess(
    batches,
    `agent.model = () => { throw new Error('the model is down') }
    return resumeRun(agent, ${JSON.stringify(first)})`,
  )
  assert.deepEqual([done.status, done.error.message], ['failed', 'the model is down'])
  await isOver()
})

test('a sub-agent in the middle of an approved call, in the second process', async () => {
  const batches = [[write('mine', 'x')], [{ id: 'sub', name: 'delegate', input: {} }, read('mine')]]
  const first = await begin(batches)
  await waits(first)
  const done = await inProcess(
    batches,
    `const child = {
      environment: agent.environment,
      tools: agent.tools,
      model: ({ step, messages }) =>
        step === 0
          ? { calls: [${JSON.stringify(list)}] }
          : { text: messages.at(-1).results[0].value.entries.map(({ path }) => path).join() },
    }
    agent.tools.delegate = subAgentTool('delegate', child, { safeParse: data => ({ success: true, data }) })
    return resumeRun(agent, ${JSON.stringify(first)})`,
  )
  const [, delegated, mine] = values(done)
  assert.deepEqual([done.status, delegated, mine.contents], ['completed', { text: 'seed' }, 'x'])
  assert.equal(done.events.filter(type => type === 'acquired').length, 2)
  await isOver()
})

test('a worker that dies in the middle of a call: the next one ends its command and goes on', async () => {
  const script = 'echo begun >>log; while [ ! -e again ]; do sleep 0.1; done; echo late >>log'
  const batches = [[shell(script)], [shell('cat log')]]
  const first = await begin(batches)
  await waits(first)
  const killed = await inProcess(
    batches,
    `const begun = () => process.kill(process.pid, 'SIGKILL')
    ${WHEN_BEGUN.replace("'begun'", "'log'")}
    return resumeRun(agent, ${JSON.stringify(first)})`,
    { ends: [null, 'SIGKILL'] },
  )
  assert.equal(killed, undefined)
  if (!hasMachineId) await new Promise(resolve => setTimeout(resolve, 21_000))
  // The runtime plays the batch again, as far as it knows it never ran.
  const done = await inProcess(
    batches,
    `const begun = () => undefined
    const exec = agent.tools.sandbox_exec.execute
    let calls = 0
    agent.tools.sandbox_exec = { ...agent.tools.sandbox_exec, requiresApproval: false, execute: async (input, context) => {
      if (calls++ === 0) await context.executionEnvironment.writeFile('again', '')
      return exec(input, context)
    } }
    return resumeRun(agent, ${JSON.stringify(first)})`,
  )
  assert.equal(done.status, 'completed', JSON.stringify(done.error))
  // Had the command of the dead worker lived on, it would have seen the file too.
  assert.equal(values(done)[1].stdout, 'begun\nbegun\nlate\n')
  await isOver()
})

test('a worker that is stopped past its lease and comes back: refused, and nothing it does is seen', async () => {
  const script = 'echo first >>log; while [ ! -e second ]; do sleep 0.1; done; echo late >>log'
  const batches = [[write('unrelated', 'x')]]
  const first = await begin(batches)
  await waits(first)
  const [stopped, flag] = [{}, join(directory, '.lock-flag')]
  const old = inProcess(
    batches,
    `const session = await agent.environment.acquire({ runId: ${JSON.stringify(first.runId)} })
    const running = session.exec({ command: 'sh', args: ['-c', ${JSON.stringify(script)}] })
    const said = running.then(() => 'done', error => error.name)
    for (;;) {
      const { entries } = await session.list()
      if (entries.some(({ path }) => path === 'log')) break
    }
    console.log('holds')
    process.kill(process.pid, 'SIGSTOP')
    // The calls of a worker that knows nothing yet, then the release with which the runtime ends it.
    const calls = [
      () => said,
      () => session.writeFile('log', 'overwritten').then(() => 'written', error => error.name),
      () => session.exec({ command: 'sh', args: ['-c', 'echo intruder >>log'] }).then(() => 'ran', error => error.name),
      () => session.readFile('log').then(() => 'read', error => error.name),
    ]
    const refusals = []
    for (const call of calls) refusals.push(await call())
    const released = await session.release({ status: 'failed' })
    return { refusals, released: released ?? null }`,
    {
      started: (child, said) => {
        if (said.includes('holds')) stopped.child ??= child
      },
    },
  )
  await eventually('it holds the run and is stopped', () => {
    if (!stopped.child) return false
    const stat = readFileSync(`/proc/${stopped.child.pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2)[0] === 'T'
  })
  // While it is not silent for long enough, it holds the run.
  const early = await inProcess(
    batches,
    `return { error: await agent.environment.acquire({ runId: ${JSON.stringify(first.runId)} }).catch(error => error.name) }`,
  )
  assert.equal(early.error, 'ConflictError')
  await new Promise(resolve => setTimeout(resolve, 20_500))
  const ready = {}
  const next = inProcess(
    batches,
    `const session = await agent.environment.acquire({ runId: ${JSON.stringify(first.runId)} })
    console.log('took over')
    await session.exec({ command: 'sh', args: ['-c', 'touch second; echo second >>log'] })
    // Until the other one was continued and has done what it can.
    const { existsSync } = await import('node:fs')
    while (!existsSync(${JSON.stringify(flag)})) await new Promise(resolve => setTimeout(resolve, 50))
    const { contents } = await session.readFile('log', { encoding: 'utf8' })
    await session.release({ status: 'completed' })
    return { contents }`,
    {
      started: (child, said) => {
        if (said.includes('took over') && !ready.done) {
          ready.done = true
          process.kill(stopped.child.pid, 'SIGCONT')
        }
      },
    },
  )
  const came = await old
  writeFileSync(flag, '')
  const { contents, events } = await next
  assert.equal(contents, 'first\nsecond\n')
  assert.equal(events.filter(type => type === 'released').length, 1)
  assert.deepEqual(
    came.refusals,
    Array.from({ length: 4 }, () => 'ConflictError'),
  )
  assert.equal(came.released, null)
  assert.deepEqual([came.events.includes('lease_lost'), came.events.includes('released')], [true, false])
  await isOver()
})

leavesNothing()
