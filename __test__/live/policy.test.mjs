// Which commands and tools a session lets through: authorize says it in both phases, and exec by itself.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxTools } from '../../index.js'
import { codeOf, failureOf, lab } from '../support/live.mjs'

const { inSession, leavesNothing } = lab()
const tools = createDockerSandboxTools()

function request(session, name, input, phase) {
  const toolCall = { id: 'c1', name, input }
  return {
    manifest: session.manifest,
    binding: session.binding,
    tool: tools[name] ?? { name },
    toolCall,
    input,
    context: {},
    phase,
  }
}

/** The decisions of both phases, which must be the same. */
async function decide(session, name, input) {
  const [first, second] = [
    await session.authorize(request(session, name, input, 'preflight')),
    await session.authorize(request(session, name, input, 'execute')),
  ]
  assert.deepEqual(first, second)
  return first
}

/** Refused by authorize in words, by exec with DENIED, and by the tool too. */
async function refuses(session, command) {
  const decision = await decide(session, 'sandbox_exec', { command })
  assert.equal(decision.decision, 'deny', command)
  assert.match(decision.reason, /^[A-Z].*\.$/, decision.reason)
  const error = await failureOf(session.exec({ command }))
  assert.deepEqual([error.code, error.message], ['DENIED', decision.reason], command)
  const context = { executionEnvironment: session }
  assert.equal(await codeOf(tools.sandbox_exec.execute({ command }, context)), 'DENIED')
}

const NEVER = [
  '-x',
  '--help',
  '../bin/sh',
  '/bin/../bin/sh',
  '..',
  './..',
  '/usr/local/bin/x',
  '/sbin/init',
  '/etc/passwd',
  '/workspace/x',
  './x',
  'bin/sh',
  '/bin/',
  '/usr/bin/',
  '/bin/.',
  '//bin/sh',
  '/bin//sh',
  '/usr/bin/a/b',
  '/proc/self/exe',
  'a\0b',
  '/',
  '.',
  'x'.repeat(200_000),
]

test('with every command allowed, these are not', () =>
  inSession({}, async session => {
    for (const command of NEVER) await refuses(session, command)
    for (const command of ['ls', '/bin/ls', '/usr/bin/env']) {
      assert.deepEqual(await decide(session, 'sandbox_exec', { command }), { decision: 'allow' })
      assert.equal((await session.exec({ command })).exitCode, 0)
    }
    // There is no shell: a command line is the name of no program.
    assert.equal((await session.exec({ command: 'ls -l' })).outcome, 'not_started')
  }))

test('only what the list names, by name and by path', () =>
  inSession({ shell: { allow: ['echo', 'cat'] } }, async session => {
    for (const command of [...NEVER, 'ls', '/bin/ls', '/bin/sh', 'sh', 'ECHO', 'echo2', 'busybox'])
      await refuses(session, command)
    assert.match((await decide(session, 'sandbox_exec', { command: 'ls' })).reason, /"ls".*cat, echo/)
    assert.equal((await session.exec({ command: 'echo', args: ['-n', 'a;ls'] })).stdout, 'a;ls')
    assert.equal((await session.exec({ command: '/bin/echo', args: ['b'] })).stdout, 'b\n')
  }))

test('no command at all unless the options say so', () =>
  inSession({ shell: 'deny' }, async session => {
    for (const command of ['ls', '/bin/ls', 'true']) await refuses(session, command)
    assert.deepEqual(await session.writeFile('f', 'x'), { path: 'f', size: 1 })
  }))

test('an undeclared tool is denied, a declared one is not', async () => {
  await inSession({ declaredTools: ['my_tool'] }, async session => {
    for (const name of ['other', 'My_tool', 'sandbox_exec2', '__proto__', 'constructor', '']) {
      assert.equal((await decide(session, name, {})).decision, 'deny', name)
    }
    assert.deepEqual(await decide(session, 'my_tool', { anything: 1 }), { decision: 'allow' })
  })
  await inSession({ undeclaredTools: 'allow' }, async session => {
    assert.deepEqual(await decide(session, 'other', {}), { decision: 'allow' })
    assert.equal((await decide(session, 'sandbox_read_file', { path: '../x' })).decision, 'deny')
  })
})

test('a path that escapes is denied before anything runs', () =>
  inSession({}, async session => {
    for (const path of ['..', '../x', '/etc/passwd', 'a/../../b', 'a\0b', 'x'.repeat(5_000), '\ud800']) {
      for (const name of ['sandbox_read_file', 'sandbox_write_file', 'sandbox_list']) {
        const { decision, reason } = await decide(session, name, { path, contents: '' })
        assert.equal(decision, 'deny', `${name} ${path}`)
        assert.ok(reason.length > 10 && reason.length < 500)
      }
      assert.equal((await decide(session, 'sandbox_exec', { command: 'ls', cwd: path })).decision, 'deny')
    }
    assert.equal((await decide(session, 'sandbox_exec', { command: 'ls', args: ['\0'] })).decision, 'deny')
    assert.deepEqual(await decide(session, 'sandbox_read_file', { path: '/workspace/a' }), { decision: 'allow' })
  }))

test('a request that makes no sense is denied and never throws', () =>
  inSession({}, async session => {
    const getter = {
      get tool() {
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
    const odd = [
      undefined,
      null,
      5,
      'x',
      [],
      {},
      getter,
      trap,
      { tool: null },
      { tool: { name: 5 } },
      { tool: { name: 'sandbox_exec' } },
    ]
    const inputs = [
      undefined,
      null,
      'x',
      [],
      trap,
      { command: 5 },
      { command: {} },
      { command: 'ls', args: 'x' },
      { command: 'ls', args: [5] },
      { command: 'ls', cwd: 5 },
    ]
    for (const input of inputs) odd.push({ tool: { name: 'sandbox_exec' }, phase: 'execute', input })
    odd.push({ tool: { name: 'sandbox_exec' }, phase: 'other', input: { command: 'ls' } })
    for (const [index, asked] of odd.entries())
      assert.equal((await session.authorize(asked)).decision, 'deny', String(index))
  }))

leavesNothing()
