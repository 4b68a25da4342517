import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import * as z from 'zod'
import { fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

const { binding, calls } = fakeBinding()
const api = createApi(binding)
const tools = api.createDockerSandboxTools()

async function contextOf(runId, abortSignal) {
  const environment = api.createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  return { executionEnvironment: await environment.acquire({ runId }), abortSignal }
}

test('four tools, under their names, with what policies read', () => {
  assert.deepEqual(
    Object.entries(tools).map(([key, tool]) => [
      key === tool.name,
      tool.name,
      tool.requiresApproval,
      tool.approvalMode,
      tool.approvalVersion,
      tool.metadata.advancedRegistry.permissions.join(' '),
      tool.metadata.advancedRegistry.audit.riskLevel,
    ]),
    [
      [true, 'sandbox_read_file', false, undefined, undefined, 'read filesystem', 'low'],
      [true, 'sandbox_write_file', true, 'interrupt', '1', 'write filesystem', 'medium'],
      [true, 'sandbox_list', false, undefined, undefined, 'read filesystem', 'low'],
      [true, 'sandbox_exec', true, 'interrupt', '1', 'read write filesystem code-execution shell', 'high'],
    ],
  )
  assert.ok(Object.values(tools).every(tool => tool.description.length > 20))
})

test('inputs: what is in bounds passes, what is one past them does not', () => {
  const accepted = {
    sandbox_read_file: [
      { path: 'a' },
      { path: 'a', encoding: 'base64', offset: 0, limit: 1 },
      { path: 'x'.repeat(4095) },
    ],
    sandbox_write_file: [
      { path: 'a', contents: '' },
      { path: 'a', contents: 'x', encoding: 'utf8', mode: 0o777 },
    ],
    sandbox_list: [{}, { path: '.', depth: 1, limit: 1 }, { depth: 64, limit: 10_000 }],
    sandbox_exec: [
      { command: 'ls' },
      { command: 'ls', args: [], cwd: '.', env: { _A1: '' }, stdin: '', timeoutMs: 1 },
      { command: 'ls', args: Array(4096).fill(''), timeoutMs: 2 ** 31 - 1 },
      { command: 'ls', args: ['x'.repeat(131_071)] },
    ],
  }
  const refused = {
    sandbox_read_file: [
      undefined,
      null,
      {},
      { path: '' },
      { path: 5 },
      { path: 'x'.repeat(4096) },
      { path: 'a', encoding: 'hex' },
      ...[{ offset: -1 }, { offset: 0.5 }, { limit: 0 }, { limit: NaN }, { offset: 2 ** 53 }, { extra: 1 }].map(
        part => ({
          path: 'a',
          ...part,
        }),
      ),
    ],
    sandbox_write_file: [
      { path: 'a' },
      { contents: 'x' },
      { path: 'a', contents: 'x', mode: 0o1000 },
      { path: 'a', contents: 'x', mode: -1 },
    ],
    sandbox_list: [{ depth: 0 }, { depth: 65 }, { limit: 0 }, { limit: 10_001 }, { recursive: true }],
    sandbox_exec: [
      {},
      { command: '' },
      { command: 'ls', args: 'x' },
      { command: 'ls', args: Array(4097).fill('') },

      { command: 'ls', args: ['x'.repeat(131_072)] },
      { command: 'ls', env: { '1A': '' } },
      { command: 'ls', env: { A: 1 } },

      { command: 'ls', timeoutMs: 0 },
      { command: 'ls', timeoutMs: 2 ** 31 },
      { command: 'ls', shell: true },
      { command: 'ls', env: Object.fromEntries(Array.from({ length: 257 }, (_, nth) => [`V${nth}`, ''])) },
    ],
  }
  for (const [name, tool] of Object.entries(tools)) {
    for (const input of accepted[name]) assert.equal(tool.schema.safeParse(input).success, true, name)
    for (const input of refused[name]) {
      assert.equal(tool.schema.safeParse(input).success, false, `${name} ${JSON.stringify(input)?.slice(0, 80)}`)
    }
  }
})

test('each schema becomes JSON Schema, strict and described', () => {
  for (const tool of Object.values(tools)) {
    const schema = z.toJSONSchema(tool.schema)
    assert.deepEqual([schema.type, schema.additionalProperties], ['object', false])
    for (const [key, property] of Object.entries(schema.properties)) {
      assert.ok(property.description?.length > 10, `${tool.name} ${key} has no description`)
    }
  }
  const exec = z.toJSONSchema(tools.sandbox_exec.schema)
  assert.deepEqual(exec.required, ['command'])
  assert.deepEqual(Object.keys(exec.properties), ['command', 'args', 'cwd', 'env', 'stdin', 'timeoutMs'])
  assert.deepEqual(
    [exec.properties.timeoutMs.type, exec.properties.timeoutMs.minimum, exec.properties.timeoutMs.maximum],
    ['integer', 1, 2 ** 31 - 1],
  )
})

test('the schemas are made with the application’s zod', () => {
  assert.ok(Object.values(tools).every(tool => tool.schema instanceof z.ZodType))
})

test('the tools work on the session in the context, and their results survive JSON', async () => {
  const context = await contextOf('tools')
  const call = async (name, input) => {
    const result = await tools[name].execute(tools[name].schema.parse(input), context)
    assert.deepEqual(JSON.parse(JSON.stringify(result)), result)
    return result
  }
  assert.deepEqual(await call('sandbox_write_file', { path: 'a', contents: 'é' }), { path: 'a', size: 2 })
  assert.deepEqual(await call('sandbox_write_file', { path: 'b', contents: '/w==', encoding: 'base64' }), {
    path: 'b',
    size: 1,
  })
  const range = { path: 'a', offset: 0, size: 2, truncated: false }
  assert.deepEqual(await call('sandbox_read_file', { path: 'a' }), { ...range, contents: 'é', encoding: 'utf8' })
  assert.deepEqual(await call('sandbox_read_file', { path: 'a', encoding: 'base64' }), {
    ...range,
    contents: 'w6k=',
    encoding: 'base64',
  })
  assert.deepEqual(await call('sandbox_list', {}), {
    path: '.',
    entries: [
      { path: 'a', type: 'file', size: 2, mode: 0o644 },
      { path: 'b', type: 'file', size: 1, mode: 0o644 },
    ],
    truncated: false,
  })
  assert.deepEqual(await call('sandbox_exec', { command: 'echo', args: ['hi'] }), {
    exitCode: 0,
    outcome: 'exited',
    stdout: 'hi\n',
    stderr: '',
    truncated: false,
    timedOut: false,
    durationMs: 1.5,
  })
  await assert.rejects(call('sandbox_read_file', { path: 'none' }), {
    code: 'NOT_FOUND',
    message: 'none does not exist.',
  })
})

test('the context’s signal cancels', async () => {
  const reason = new Error('run cancelled')
  const context = await contextOf('aborted', AbortSignal.abort(reason))
  calls.length = 0
  for (const [name, input] of [
    ['sandbox_read_file', { path: 'a' }],
    ['sandbox_write_file', { path: 'a', contents: '' }],
    ['sandbox_list', {}],
    ['sandbox_exec', { command: 'ls' }],
  ]) {
    await assert.rejects(tools[name].execute(input, context), { code: 'CANCELLED', cause: reason })
  }
  assert.deepEqual(calls, [])
})

test('without one of our sessions the error says what to do', async () => {
  const { executionEnvironment } = await contextOf('other')
  for (const context of [
    undefined,
    {},
    { executionEnvironment: null },
    { executionEnvironment: { ...executionEnvironment } },
  ]) {
    await assert.rejects(tools.sandbox_list.execute({}, context), error => {
      assert.equal(error.code, 'CONFIG_INVALID')
      return /sandbox_list was called .* createDockerSandboxEnvironment\(\) as executionEnvironment/.test(error.message)
    })
  }
})

test('options that there are none of are refused', () => {
  assert.throws(() => api.createDockerSandboxTools({ approve: false }), { code: 'CONFIG_INVALID' })
  assert.equal(Object.keys(api.createDockerSandboxTools({})).length, 4)
})
