// The environment as the agent runtime drives it, over the binding in JavaScript.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import * as z from 'zod'
import { failure, fakeBinding } from './support/fake-binding.mjs'
import { ConflictError, bindingOf, resumeRun, startRun, subAgentTool } from './support/runtime.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

/** An agent whose model plays `batches`, one a step, and then says "done". */
function agentOf(batches, { overrides, tools = {}, ...rest } = {}) {
  const { binding, calls } = fakeBinding(overrides)
  const api = createApi(binding)
  const agent = {
    environment: api.createDockerSandboxEnvironment({ workspace: { id: 'w' } }),
    tools: { ...api.createDockerSandboxTools(), ...tools },
    model: ({ step }) => (step < batches.length ? { calls: batches[step] } : { text: 'done' }),
    ...rest,
  }
  const names = () => calls.map(([name]) => name).filter(name => name !== 'CancelToken')
  return { agent, api, calls, names }
}

const results = state => state.messages.filter(({ role }) => role === 'tool').flatMap(message => message.results)
const released = calls => calls.filter(([name]) => name === 'release').map(([, status]) => status)

test('a run without approvals: acquire, preflight, execute, release', async () => {
  const { agent, calls, names } = agentOf([[{ name: 'sandbox_list', input: {} }]])
  const state = await startRun(agent, { runId: 'r', scope: { tenantId: 't' } })
  assert.deepEqual([state.status, state.text], ['completed', 'done'])
  assert.deepEqual(names().slice(2), ['acquire', 'authorize', 'authorize', 'list', 'release'])
  const phases = calls.filter(([name]) => name === 'authorize').map(([, json]) => JSON.parse(json).phase)
  assert.deepEqual(phases, ['preflight', 'execute'])
  assert.deepEqual(results(state)[0].value, { path: '.', entries: [], truncated: false })
})

test('an approval stops the invocation; the run goes on from JSON', async () => {
  const { agent, calls } = agentOf([
    [
      { id: 'w', name: 'sandbox_write_file', input: { path: 'a', contents: 'hi' } },
      { id: 'l', name: 'sandbox_list', input: {} },
    ],
    [{ id: 'r', name: 'sandbox_read_file', input: { path: 'a' } }],
  ])
  const waiting = await startRun(agent, { runId: 'r' })
  assert.equal(waiting.status, 'waiting_approval')
  assert.deepEqual(
    waiting.pending.map(({ id, approval }) => [id, approval]),
    [
      ['w', 'waiting'],
      ['l', 'none'],
    ],
  )
  assert.equal(
    calls.some(([name]) => name === 'writeText' || name === 'list'),
    false,
  )
  const state = await resumeRun(agent, JSON.parse(JSON.stringify(waiting)))
  assert.equal(state.status, 'completed')
  assert.deepEqual(
    results(state).map(({ id, value }) => [id, value.size ?? value.contents ?? 'list']),
    [
      ['w', 2],
      ['l', 'list'],
      ['r', 2],
    ],
  )
  assert.deepEqual(released(calls), ['waiting_approval', 'completed'])
})

test('a refused approval is an error result, and nothing was written', async () => {
  const { agent, calls } = agentOf([[{ id: 'w', name: 'sandbox_write_file', input: { path: 'a', contents: 'hi' } }]])
  const state = await resumeRun(agent, await startRun(agent, { runId: 'r' }), { approve: [] })
  assert.deepEqual([state.status, results(state)[0].error.message], ['completed', 'The user refused this call.'])
  assert.equal(
    calls.some(([name]) => name === 'writeText'),
    false,
  )
})

test('one refusal in preflight rejects the whole batch before any call ran', async () => {
  const { agent, names } = agentOf([
    [
      { name: 'sandbox_list', input: {} },
      { name: 'sandbox_exec', input: { command: 'rm' } },
    ],
  ])
  const state = await startRun(agent, { runId: 'r' })
  assert.equal(state.status, 'completed')
  const refusal = 'The batch was refused: sandbox_exec: Command rm is not allowed.'
  assert.deepEqual(
    results(state).map(({ error }) => error.message),
    [refusal, refusal],
  )
  assert.equal(names().includes('list'), false)
})

test('the calls of a batch run at the same time', async () => {
  let running = 0
  let most = 0
  const readFile = async path => {
    most = Math.max(most, ++running)
    await new Promise(resolve => setImmediate(resolve))
    running--
    return { path, text: path, encoding: 'utf8', offset: 0, size: 1, truncated: false, trimmed: false }
  }
  const batch = ['a', 'b', 'c', 'd'].map(path => ({ name: 'sandbox_read_file', input: { path } }))
  const { agent } = agentOf([batch], { overrides: { readFile } })
  const state = await startRun(agent, { runId: 'r' })
  assert.equal(most, 4)
  assert.deepEqual(
    results(state).map(({ value }) => value.contents),
    ['a', 'b', 'c', 'd'],
  )
})

test('an error of a tool goes to the model with its message', async () => {
  const { agent } = agentOf([
    [{ name: 'sandbox_read_file', input: { path: 'none' } }],
    [{ name: 'sandbox_list', input: { x: 1 } }],
  ])
  const state = await startRun(agent, { runId: 'r' })
  assert.equal(state.status, 'completed')
  assert.deepEqual(results(state)[0].error, {
    name: 'SandboxError',
    code: 'NOT_FOUND',
    message: 'none does not exist.',
  })
  assert.match(results(state)[1].error.message, /x/)
})

test('cancelling the run cancels its calls and releases with cancelled', async () => {
  const controller = new AbortController()
  const exec = (_json, _stdin, _pipe, token) =>
    new Promise(resolve => {
      token.listeners.push(() => resolve(failure('CANCELLED', 'stopped')))
      controller.abort(new Error('enough'))
    })
  const { agent, calls } = agentOf([[{ name: 'sandbox_exec', input: { command: 'sleep' } }]], { overrides: { exec } })
  const waiting = await startRun(agent, { runId: 'r' })
  const state = await resumeRun(agent, waiting, { abortSignal: controller.signal })
  assert.deepEqual([state.status, state.error.code], ['cancelled', 'CANCELLED'])
  assert.deepEqual(released(calls), ['waiting_approval', 'cancelled'])
})

test('a sub-agent acquires the same environment under its own run id, before the parent’s call returns', async () => {
  const { agent, api, calls, names } = agentOf([[{ id: 'sub', name: 'ask', input: { question: 'q' } }]], {
    overrides: { authorize: () => '{"decision":"allow"}' },
  })
  const child = {
    environment: agent.environment,
    tools: api.createDockerSandboxTools(),
    model: ({ step }) => (step === 0 ? { calls: [{ name: 'sandbox_list', input: {} }] } : { text: 'child done' }),
  }
  agent.tools.ask = subAgentTool('ask', child, z.object({ question: z.string() }))
  const state = await startRun(agent, { runId: 'parent' })
  assert.deepEqual(results(state)[0].value, { text: 'child done' })
  assert.deepEqual(
    calls.filter(([name]) => name === 'acquire').map(([, json]) => JSON.parse(json).runId),
    ['parent', 'parent/sub'],
  )
  assert.deepEqual(names().slice(-2), ['release', 'release'])
})

test('an acquire that fails fails the invocation, and nothing is released', async () => {
  const { agent, calls } = agentOf([], { overrides: { acquire: () => failure('DOCKER_UNAVAILABLE', 'no socket') } })
  await assert.rejects(startRun(agent, { runId: 'r' }), { code: 'DOCKER_UNAVAILABLE' })
  assert.deepEqual(released(calls), [])
})

test('another environment under the same run is a conflict, released as failed', async () => {
  const { agent, api, calls } = agentOf([[{ name: 'sandbox_exec', input: { command: 'ls' } }]])
  const waiting = await startRun(agent, { runId: 'r' })
  const other = { ...agent, environment: api.createDockerSandboxEnvironment({ workspace: { id: 'other' } }) }
  await assert.rejects(resumeRun(other, waiting), error => error instanceof ConflictError)
  assert.deepEqual(released(calls), ['waiting_approval', 'failed'])
})

test('the binding is the one that the runtime computes, in every field', async () => {
  const { agent } = agentOf([])
  const session = await agent.environment.acquire({ runId: 'r' })
  const { environmentVersion, ...rest } = bindingOf(agent.environment.manifest)
  assert.equal(environmentVersion, undefined)
  assert.deepEqual(session.binding, rest)
  assert.deepEqual(JSON.parse(JSON.stringify(session.manifest)), agent.environment.manifest)
})
