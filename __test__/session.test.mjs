import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { failure, fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

async function start(overrides) {
  const { binding, calls } = fakeBinding(overrides)
  const environment = createApi(binding).createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  const session = await environment.acquire({ runId: 'r' })
  calls.length = 0
  return { environment, session, calls }
}

test('acquire hands on run id and scope only, and checks them', async () => {
  const { environment, calls } = await start()
  const scope = { tenantId: 't', userId: undefined, namespace: 'n', other: 1 }
  await environment.acquire({ runId: 'é', scope, context: { a: 1n }, metadata: {}, agentId: 'x' })
  assert.deepEqual(calls, [['acquire', '{"runId":"é","scope":{"tenantId":"t","namespace":"n"}}', undefined]])
  for (const request of [
    undefined,
    null,
    'r',
    {},
    { runId: '' },
    { runId: 5 },
    { runId: '\udc00' },
    ...[{ scope: null }, { scope: {} }, { scope: { tenantId: '' } }, { scope: { tenantId: 't', userId: 1 } }].map(
      part => ({ runId: 'r', ...part }),
    ),
    Object.defineProperty({}, 'runId', {
      get() {
        throw new Error('no')
      },
    }),
  ]) {
    await assert.rejects(environment.acquire(request), { code: 'CONFIG_INVALID' })
  }
})

test('a session whose native part is broken is released again', async () => {
  const { binding } = fakeBinding()
  const released = []
  const prepare = binding.prepareEnvironment
  binding.prepareEnvironment = (...args) => ({
    ...prepare(...args),
    acquire: async () => ({
      capabilitiesJson: () => {
        throw new Error('torn')
      },
      release: async status => released.push(status),
    }),
  })
  const environment = createApi(binding).createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  await assert.rejects(environment.acquire({ runId: 'r' }), { code: 'INTERNAL' })
  assert.deepEqual(released, ['failed'])
})

test('files are written and read as bytes, text and base64', async () => {
  const { session } = await start()
  const bytes = new Uint8Array([0xc3, 0xa9, 0])
  const written = session.writeFile('a', bytes, { mode: 0o600 })
  bytes.fill(0)
  assert.deepEqual(await written, { path: 'a', size: 3 })
  const range = { path: 'a', offset: 0, size: 3, truncated: false }
  assert.deepEqual(await session.readFile('a'), {
    ...range,
    encoding: 'bytes',
    contents: new Uint8Array([0xc3, 0xa9, 0]),
  })
  assert.deepEqual(await session.readFile('a', { encoding: 'utf8' }), { ...range, encoding: 'utf8', contents: 'é\0' })
  assert.deepEqual(await session.readFile('a', { encoding: 'base64', limit: 2 }), {
    ...range,
    encoding: 'base64',
    contents: 'w6k=',
    truncated: true,
  })
  assert.deepEqual(await session.list(), {
    path: '.',
    entries: [{ path: 'a', type: 'file', size: 3, mode: 0o644 }],
    truncated: false,
  })
})

test('a range that was trimmed to whole characters says so', async () => {
  const trimmed = { path: 'a', text: 'é', encoding: 'utf8', offset: 1, size: 9, truncated: true, trimmed: true }
  const { session } = await start({ readFile: async () => trimmed })
  const result = await session.readFile('a', { encoding: 'utf8', offset: 0, limit: 4 })
  const { text: contents, ...rest } = trimmed
  assert.deepEqual(result, { ...rest, contents })
})

test('exec: an exit code that there is not is null, a signal that there is not is absent', async () => {
  const { session, calls } = await start()
  const ended = { outcome: 'exited', stderr: '', truncated: false, timedOut: false, durationMs: 1.5 }
  const request = { command: 'echo', args: ['a', 'b'], cwd: 'src', env: { A: '1' }, timeoutMs: 5 }
  assert.deepEqual(await session.exec(request), { ...ended, exitCode: 0, stdout: 'a b\n' })
  assert.deepEqual(calls, [['exec', JSON.stringify(request), undefined, undefined, undefined]])
  assert.deepEqual(await session.exec({ command: 'crash' }), {
    ...ended,
    exitCode: null,
    signal: 'SIGSEGV',
    outcome: 'signaled',
    stdout: '',
  })
  assert.equal((await session.exec({ command: 'cat', stdin: 'é' })).stdout, 'é')
  assert.equal((await session.exec({ command: 'cat', stdin: new Uint8Array([104, 105]) })).stdout, 'hi')
})

test('wrong arguments are named and never reach the native part', async () => {
  const { session, calls } = await start()
  const config = [
    () => session.readFile('a', { encoding: 'latin1' }),
    () => session.readFile('a', { offset: '1' }),
    () => session.readFile('a', { lenght: 1 }),
    () => session.readFile('a', 'utf8'),
    () => session.writeFile('a', 5),
    () => session.writeFile('a', null),
    () => session.writeFile('a', 'x', { mode: '644' }),
    () => session.list('a', { depth: '1' }),
    () => session.exec(),
    () => session.exec({ command: '' }),
    () => session.exec({ command: ['ls'] }),
    () => session.exec({ command: 'a', args: 'b' }),
    () => session.exec({ command: 'a', args: [1] }),
    () => session.exec({ command: 'a', args: ['\ud800'] }),
    () => session.exec({ command: 'a', env: { A: 1 } }),
    () => session.exec({ command: 'a', env: ['A=1'] }),
    () => session.exec({ command: 'a', stdin: 1 }),
    () => session.exec({ command: 'a', timeoutMs: NaN }),
    () => session.exec({ command: 'a', timeout: 1 }),
    () => session.execute({}, 'operation'),
  ]
  for (const call of config) await assert.rejects(call, { name: 'SandboxError', code: 'CONFIG_INVALID' }, String(call))
  for (const path of [null, 1, {}, '\ud800']) {
    for (const call of [
      () => session.readFile(path),
      () => session.writeFile(path, 'x'),
      () => session.list(path),
      () => session.exec({ command: 'a', cwd: path }),
    ]) {
      await assert.rejects(call, { name: 'SandboxError', code: 'PATH_INVALID' })
    }
  }
  assert.deepEqual(calls, [])
})

test('a wrong env value is not shown', async () => {
  const { session } = await start()
  await assert.rejects(session.exec({ command: 'a', env: { PIN: 987654 } }), error => !error.message.includes('987654'))
})

test('execute runs the operation and hands on its result or error', async () => {
  const { session } = await start()
  assert.equal(await session.execute({}, () => 7), 7)
  assert.equal(await session.execute({}, async () => 'later'), 'later')
  const error = new Error('mine')
  await assert.rejects(
    session.execute({}, () => {
      throw error
    }),
    thrown => thrown === error,
  )
})

test('after release: execute is RELEASED, authorize denies, the operations are refused', async () => {
  const { session, calls } = await start()
  await session.release({ status: 'completed' })
  let ran = false
  await assert.rejects(
    session.execute({}, () => {
      ran = true
    }),
    { code: 'RELEASED' },
  )
  assert.equal(ran, false)
  assert.equal(
    (await session.authorize({ tool: { name: 'sandbox_list' }, phase: 'execute', input: {} })).decision,
    'deny',
  )
  await assert.rejects(session.readFile('a'), { code: 'RELEASED' })
  assert.deepEqual(calls[0], ['release', 'completed'])
})

test('release never rejects, whatever it is given or meets', async () => {
  const hostile = {
    get status() {
      throw new Error('no')
    },
    get error() {
      throw new Error('no')
    },
  }
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const rejecting = [
    () => Promise.reject(new Error('bug')),
    () => {
      throw new Error('bug')
    },
    () => failure('INTERNAL'),
  ]
  for (const release of [undefined, ...rejecting]) {
    for (const request of [undefined, null, 1, 'failed', {}, { status: 5 }, { status: null }, hostile, proxy]) {
      const { session, calls } = await start(release && { release })
      assert.equal(await session.release(request), undefined)
      assert.deepEqual(calls, [['release', 'failed']])
    }
  }
})

test('release hands on the status, once', async () => {
  const statuses = 'queued running suspended waiting_approval cancel_requested completed failed cancelled timed_out new'
  for (const status of statuses.split(' ')) {
    const { session, calls } = await start()
    await Promise.all([session.release({ status, error: { message: 'why' } }), session.release({ status: 'failed' })])
    await session[Symbol.asyncDispose]()
    assert.deepEqual(calls, [['release', status]])
  }
})

test('disposing of a session completes the run; disposing of an environment closes it', async () => {
  const { session, environment, calls } = await start()
  await session[Symbol.asyncDispose]()
  await environment[Symbol.asyncDispose]()
  assert.deepEqual(calls, [['release', 'completed'], ['close']])
})

test('authorize sends names and small fields, never contents', async () => {
  const { session, calls } = await start()
  const ask = (name, input, phase = 'preflight') => session.authorize({ tool: { name }, phase, input, context: {} })
  assert.deepEqual(await ask('sandbox_write_file', { path: 'a', contents: 'secret', mode: 1 }), { decision: 'allow' })
  assert.deepEqual(
    await ask('sandbox_exec', { command: 'ls', args: ['-l'], cwd: 'b', stdin: 's', env: { A: '1' } }, 'execute'),
    {
      decision: 'allow',
    },
  )
  assert.deepEqual(await ask('sandbox_exec', { command: 'rm' }), {
    decision: 'deny',
    reason: 'Command rm is not allowed.',
  })
  assert.deepEqual(await ask('get_weather', { path: 'x' }), {
    decision: 'deny',
    reason: 'Tool get_weather is not declared.',
  })
  assert.deepEqual(
    calls.map(([, json]) => json),
    [
      '{"tool":"sandbox_write_file","phase":"preflight","input":{"path":"a"}}',
      '{"tool":"sandbox_exec","phase":"execute","input":{"command":"ls","args":["-l"],"cwd":"b"}}',
      '{"tool":"sandbox_exec","phase":"preflight","input":{"command":"rm"}}',
      '{"tool":"get_weather","phase":"preflight","input":{}}',
    ],
  )
})

test('authorize denies what it cannot understand, and does not throw', async () => {
  for (const request of [
    undefined,
    null,
    {},
    { tool: {} },
    { tool: { name: 5 } },
    ...[{ phase: 'later' }, { input: null }, { input: [] }, { input: { path: 5 } }, { input: { path: '\ud800' } }].map(
      part => ({ tool: { name: 'sandbox_read_file' }, phase: 'execute', input: { path: 'a' }, ...part }),
    ),
    { tool: { name: 'sandbox_exec' }, phase: 'execute', input: { command: 'ls', args: 'x' } },
  ]) {
    const { session, calls } = await start()
    const { decision, reason } = await session.authorize(request)
    assert.deepEqual([decision, typeof reason, calls], ['deny', 'string', []])
  }
  for (const authorize of [() => 'no json', () => '{"decision":"maybe"}', () => Promise.resolve(1)]) {
    const { session } = await start({ authorize })
    const answer = await session.authorize({ tool: { name: 'sandbox_list' }, phase: 'execute', input: {} })
    assert.equal(answer.decision, 'deny')
  }
})

test('snapshot tells what is known of it, and takes a signal and nothing else', async () => {
  const { session } = await start()
  assert.deepEqual(await session.snapshot(), { runId: 'r', fingerprint: 'sha256:0', createdAt: 7 })
  await assert.rejects(session.snapshot({ path: 'a' }), { code: 'CONFIG_INVALID', message: /path/ })
  const reason = new Error('enough')
  const aborted = session.snapshot({ signal: AbortSignal.abort(reason) })
  await assert.rejects(aborted, { code: 'CANCELLED', cause: reason })
})

test('capabilities are frozen data; sweep reports; methods need no this', async () => {
  const { environment, session } = await start()
  assert.deepEqual(session.capabilities, { transport: 'exec', outcomes: ['exited', 'timed_out'], raceFreePaths: false })
  assert.ok(Object.isFrozen(session.capabilities.outcomes))
  const { sweep, close } = environment
  assert.deepEqual(await sweep(), { expired: ['r1'] })
  assert.equal(await close(), undefined)
  const { list, release } = session
  assert.equal((await list()).truncated, false)
  assert.equal(await release({ status: 'completed' }), undefined)
})

test('what an application put on Object.prototype is neither an option nor a failure', async () => {
  const { session, calls } = await start()
  const polluted = { args: ['x'], failure: { code: 'LIMIT', message: 'no' } }
  for (const [key, value] of Object.entries(polluted)) {
    Object.defineProperty(Object.prototype, key, { value, configurable: true, enumerable: false })
  }
  try {
    await session.exec({ command: 'ls' })
  } finally {
    for (const key of Object.keys(polluted)) delete Object.prototype[key]
  }
  assert.deepEqual(calls[0].slice(0, 2), ['exec', '{"command":"ls"}'])
})
