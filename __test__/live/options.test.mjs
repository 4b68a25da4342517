// Every wrong option is refused when the environment is created, by its name, with what it was and what it may be.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SandboxError, createDockerSandboxEnvironment, createMemoryDockerClient } from '../../index.js'
import { lab, socketPath } from '../support/live.mjs'

const { containers, environment, leavesNothing } = lab()
const file = (path, contents = '', mode) => ({ path, contents, ...(mode === undefined ? {} : { mode }) })
const inWorkspace = rest => ({ workspace: { id: 'w', ...rest } })

// What the message must name → options that are wrong.
const WRONG = {
  user: [
    'root',
    '0',
    '0:0',
    '0:1',
    '1:0',
    '-1',
    '1:',
    ':1',
    '1:2:3',
    ' 1',
    '1.5',
    '65534:nobody',
    '2147483648',
    '00',
    '+1',
    '',
    5,
    null,
  ].map(user => ({ user })),
  image: ['', '-x', 'a b', 'a\nb', 'x'.repeat(256), 5].map(image => ({ image })),
  id: ['', 'a\0', 5].map(id => ({ id })),
  pull: ['sometimes', true].map(pull => ({ pull })),
  shell: [
    'bash',
    [],
    { deny: [] },
    { allow: 'ls' },
    { allow: [5] },
    { allow: ['a/b'] },
    { allow: ['-x'] },
    { allow: [''] },
  ].map(shell => ({ shell })),
  env: [
    { 'A=B': '' },
    { '': '' },
    { '1A': '' },
    { A: 5 },
    { A: 'a\0b' },
    { PATH: '/workspace/bin' },
    { PATH: '' },
    { PATH: 'bin' },
    { A: 'x'.repeat(200_000) },
    'A=b',
  ].map(env => ({ env })),
  leaseMs: [0, -1, NaN, Infinity, 1.5, '1', 2 ** 53].map(leaseMs => ({ leaseMs })),
  tmp: [{}, { sizeMb: 0 }, { sizeMb: 'x' }, { sizeMb: 1e9 }, { size: 1 }, true].map(tmp => ({ tmp })),
  assurance: ['none'].map(assurance => ({ assurance })),
  undeclaredTools: ['maybe'].map(undeclaredTools => ({ undeclaredTools })),
  declaredTools: ['x', [5], ['']].map(declaredTools => ({ declaredTools })),
  ownerId: ['', 5].map(ownerId => ({ ownerId })),
  transport: ['telepathy'].map(transport => ({ transport })),
  nonsense: [{ nonsense: 1 }],
  workspace: [undefined, null, {}, 'w', []].map(workspace => ({ workspace })),
  'workspace.id': [{ workspace: { id: '' } }, { workspace: { id: 5 } }],
  'workspace.directories': [['/etc'], ['..'], ['a/../../b'], ['a\0'], [5], 'a'].map(directories =>
    inWorkspace({ directories }),
  ),
  'workspace.files': [
    [file('/etc/passwd')],
    [file('../x')],
    [file('')],
    [file('.')],
    [file('a/')],
    [file('a\0b')],
    [file('x'.repeat(256))],
    [file('a', 'x', 0o1777)],
    [file('a', 'x', -1)],
    [file('a', 5)],
    [file('a', 'x'.repeat(2 ** 20 + 1))],
    [file('a'), file('./a')],
    [file('a'), file('a/b')],
    [{ path: 'a' }],
    [{ ...file('a'), owner: 1 }],
    'a',
  ].map(files => inWorkspace({ files })),
  'limits.memoryMb': [0, 5, -1, NaN, Infinity, '256', 1.5, 2 ** 53].map(memoryMb => ({ limits: { memoryMb } })),
  'limits.cpus': [0, -1, NaN, Infinity, '1', 1e9].map(cpus => ({ limits: { cpus } })),
  'limits.pids': [0, 1, -1, NaN, 1.5, 2 ** 40].map(pids => ({ limits: { pids } })),
  'limits.commandTimeoutMs': [0, -1, NaN, Infinity, 1e12].map(commandTimeoutMs => ({ limits: { commandTimeoutMs } })),
  'limits.maxOutputBytes': [0, -1, 2 ** 40].map(maxOutputBytes => ({ limits: { maxOutputBytes } })),
  'limits.maxFileBytes': [0, -1, 2 ** 40].map(maxFileBytes => ({ limits: { maxFileBytes } })),
  'limits.maxWorkspaceBytes': [0, -1, 1.5, 256 * 2 ** 20, 2 ** 50].map(maxWorkspaceBytes => ({
    limits: { maxWorkspaceBytes },
  })),
  'limits.maxConcurrentProcesses': [0, -1, 1e6].map(maxConcurrentProcesses => ({ limits: { maxConcurrentProcesses } })),
  'limits.memory': [{ limits: { memory: 5 } }],
}

for (const [name, cases] of Object.entries(WRONG)) {
  test(`${name} is named`, () => {
    for (const options of cases) {
      let thrown
      try {
        createDockerSandboxEnvironment({ socketPath, workspace: { id: 'w' }, ...options })
      } catch (error) {
        thrown = error
      }
      const what = `${JSON.stringify(options)?.slice(0, 100)}: ${thrown?.message}`
      assert.ok(thrown instanceof SandboxError, what)
      assert.equal(thrown.code, 'CONFIG_INVALID', what)
      assert.ok(thrown.message.includes(name), what)
      assert.ok(!thrown.message.includes('xxxxxxxxxx'.repeat(30)), what)
    }
  })
}

test('the workspace and /tmp together must be below the memory', () => {
  const make = (memoryMb, workspaceMb, sizeMb) => () =>
    environment({ tmp: { sizeMb }, limits: { memoryMb, maxWorkspaceBytes: workspaceMb * 2 ** 20 } })
  assert.doesNotThrow(make(100, 50, 49))
  assert.throws(make(100, 50, 50), { code: 'CONFIG_INVALID' })
  assert.throws(make(100, 100, 1), { code: 'CONFIG_INVALID' })
})

test('what the in-memory client cannot enforce is not promised', () => {
  const client = createMemoryDockerClient()
  const workspace = { id: 'w' }
  assert.throws(() => createDockerSandboxEnvironment({ client, workspace, assurance: 'enforced' }), {
    code: 'UNSUPPORTED',
  })
  assert.equal(createDockerSandboxEnvironment({ client, workspace }).manifest.assurance, 'best-effort')
  assert.equal(environment().manifest.assurance, 'enforced')
})

test('nothing is asked of an engine before the first acquire', async () => {
  const owner = createDockerSandboxEnvironment({ socketPath: '/nonexistent/docker.sock', workspace: { id: 'w' } })
  assert.equal(owner.manifest.workspace.id, 'w')
  await assert.rejects(owner.acquire({ runId: 'r' }), {
    code: 'DOCKER_UNAVAILABLE',
    message: /\/nonexistent\/docker\.sock/,
  })
  environment()
  assert.deepEqual(await containers(), [])
})

test('an image that is not there is IMAGE_MISSING, and leaves nothing', async () => {
  const owner = environment({ image: 'sandbox-test/nothing:none' })
  await assert.rejects(owner.acquire({ runId: 'r' }), { code: 'IMAGE_MISSING', message: /sandbox-test\/nothing:none/ })
  assert.deepEqual(await containers(), [])
})

leavesNothing()
