// Arguments of every kind to every method: a typed error or a result, never a crash, another error or a hang.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import {
  ConflictError,
  SandboxError,
  createDockerSandboxEnvironment,
  createDockerSandboxTools,
  createFileLeaseStore,
  createFileSnapshotStore,
  createMemoryDockerClient,
  createMemoryLeaseStore,
  createMemorySnapshotStore,
  createNodeDockerClient,
} from '../../index.js'
import { lab, socketPath } from '../support/live.mjs'

const { containers, inSession, leavesNothing } = lab()

const detached = new ArrayBuffer(8)
const onDetached = new Uint8Array(detached)
structuredClone(detached, { transfer: [detached] })
const throwing = new Proxy(
  {},
  {
    get() {
      throw new RangeError('trap')
    },
    ownKeys() {
      throw new RangeError('trap')
    },
    getPrototypeOf() {
      throw new RangeError('trap')
    },
  },
)
const cyclic = {}
cyclic.self = cyclic
const deep = JSON.parse('['.repeat(500) + ']'.repeat(500))

const ABSURD = [
  undefined,
  null,
  true,
  NaN,
  Infinity,
  -Infinity,
  -1,
  -0,
  0.5,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 64,
  1e308,
  -1e308,
  5n,
  Symbol('s'),
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  '\udfff x',
  '../x',
  '-x',
  'x'.repeat(5_000),
  'x'.repeat(2_000_000),
  '😀'.repeat(100),
  '{}',
  '__proto__',
  [],
  [null],
  [[]],
  Object.assign([], { length: 2 ** 32 - 1 }),
  {},
  { length: -1 },
  { __proto__: null },
  {
    toString() {
      throw new RangeError('no')
    },
  },
  cyclic,
  deep,
  throwing,
  Object.freeze({
    get x() {
      throw new RangeError('getter')
    },
  }),
  () => undefined,
  class {},
  new Date(NaN),
  new Map(),
  /x/,
  new Error('e'),
  Promise.resolve(),
  new Uint8Array(),
  new Uint8Array(3),
  onDetached,
  detached,
  new Float64Array(2),
  new DataView(new ArrayBuffer(2)),
  new SharedArrayBuffer(4),
  globalThis,
  AbortSignal.abort(throwing),
  new AbortController(),
]
const show = value => {
  try {
    return typeof value === 'string'
      ? JSON.stringify(value.slice(0, 30))
      : `${typeof value} ${Object.prototype.toString.call(value)}`
  } catch {
    return 'a proxy'
  }
}

/** What is thrown must be ours, and no fault of ours. */
async function holds(what, call) {
  try {
    return await call()
  } catch (error) {
    const typed = error instanceof SandboxError || error instanceof ConflictError
    assert.ok(typed, `${what}: ${error?.stack ?? String(error)}`)
    assert.notEqual(error.code, 'INTERNAL', `${what}: ${error.message}`)
    assert.ok(error.message.length <= 4_100, `${what}: a message of ${error.message.length}`)
    return undefined
  }
}

const KEYS = {
  environment: [
    'id',
    'version',
    'image',
    'pull',
    'runtime',
    'user',
    'workspace',
    'tmp',
    'shell',
    'network',
    'limits',
    'env',
    'leaseMs',
    'snapshot',
    'checkpointMs',
    'assurance',
    'undeclaredTools',
    'declaredTools',
    'ownerId',
    'client',
    'socketPath',
    'leaseStore',
    'snapshotStore',
    'transport',
    'pool',
    'onEvent',
    'unknown',
    '__proto__',
    '',
  ],
  workspace: ['id', 'directories', 'exec', 'files', 'source'],
  limits: [
    'memoryMb',
    'cpus',
    'pids',
    'commandTimeoutMs',
    'maxOutputBytes',
    'maxFileBytes',
    'maxWorkspaceBytes',
    'maxConcurrentProcesses',
  ],
}

test('options of an environment', async () => {
  const make = options => holds(show(options), () => createDockerSandboxEnvironment(options))
  for (const value of ABSURD) {
    await make(value)
    for (const key of KEYS.environment)
      await holds(`${key}: ${show(value)}`, () =>
        createDockerSandboxEnvironment({ workspace: { id: 'w' }, [key]: value }),
      )
    for (const key of KEYS.workspace) await make({ workspace: { id: 'w', [key]: value } })
    for (const key of KEYS.limits) await make({ workspace: { id: 'w' }, limits: { [key]: value } })
    await make({ workspace: { id: 'w', files: [{ path: value, contents: 'x' }] } })
    await make({ workspace: { id: 'w', files: [{ path: 'f', contents: value }] } })
    await make({ workspace: { id: 'w', files: [{ path: 'f', contents: 'x', mode: value }] } })
    await make({ workspace: { id: 'w', source: { root: value, include: ['x'] } } })
    await make({ workspace: { id: 'w', source: { root: '/tmp', include: [value] } } })
    await make({ workspace: { id: 'w' }, env: { A: value } })
    await make({ workspace: { id: 'w' }, shell: { allow: [value] } })
    await make({ workspace: { id: 'w' }, network: { mode: 'allowlist', allowedDomains: [value] } })
  }
})

test('makers of clients, stores and tools', async () => {
  const makers = {
    createDockerSandboxTools,
    createNodeDockerClient,
    createMemoryDockerClient,
    createFileLeaseStore,
    createFileSnapshotStore,
  }
  for (const value of ABSURD) {
    for (const [name, make] of Object.entries(makers)) {
      await holds(`${name} ${show(value)}`, () => make(value))
      for (const key of ['socketPath', 'apiVersion', 'fail', 'images'])
        await holds(`${name} ${key}`, () => make({ [key]: value }))
    }
  }
})

/** Each method with each value in each place, the others being usual. */
async function everywhere(object, methods) {
  for (const [name, usual] of Object.entries(methods)) {
    await Promise.all(
      ABSURD.map(async value => {
        for (let place = 0; place < usual.length; place++) {
          const given = usual.map((other, index) => (index === place ? value : other))
          await holds(`${name}(${given.map(show)})`, () => object[name](...given))
        }
      }),
    )
  }
}

test('methods of a client and of stores', async () => {
  const none = 'no-such-container'
  const methods = {
    createContainer: [{}],
    startContainer: [none],
    inspectContainer: [none],
    removeContainer: [none],
    killContainer: [none, 'SIGKILL'],
    listContainers: ['no.such.label=x'],
    putArchive: [none, '/x', new Uint8Array(1024)],
    getArchive: [none, '/x', 10],
    exec: [none, { cmd: ['true'], user: '', workingDir: '/', timeoutMs: 1, maxOutputBytes: 1 }],
    realpath: [none, '/x'],
    commitContainer: [none, 'no-such-repo', 't', {}],
    removeImage: ['no-such-image-at-all'],
    removeNetwork: ['no-such-network'],
  }
  await everywhere(createNodeDockerClient({ socketPath }), methods)
  await everywhere(createMemoryDockerClient(), { ...methods, createNetwork: ['n'] })
  await everywhere(createMemoryLeaseStore(), { load: ['k'], save: [{}, null], remove: ['k', 1], list: ['o'] })
  await everywhere(createMemorySnapshotStore(), { load: ['k'], save: ['k', {}, []], remove: ['k'] })
})

test('requests of acquire and sweep', () =>
  inSession({}, async (_session, { environment: owner }) => {
    for (const value of ABSURD) {
      const requests = [
        value,
        { runId: value },
        { runId: randomUUID(), scope: value },
        { runId: randomUUID(), scope: { tenantId: value } },
        { runId: randomUUID(), scope: { tenantId: 't', userId: value } },
        { runId: randomUUID(), abortSignal: value },
      ]
      for (const request of requests) {
        // Whatever is acquired after all was no absurd request; it is cancelled before it costs a container.
        const usual =
          typeof request === 'object' && request !== null && request !== value && !('abortSignal' in request)
        await holds(`acquire ${show(value)}`, async () => {
          const session = await owner.acquire(usual ? { ...request, abortSignal: AbortSignal.abort() } : request)
          await session.release({ status: 'completed' })
        })
      }
      await holds(`sweep ${show(value)}`, () => owner.sweep(value))
      await holds(`sweep signal ${show(value)}`, () => owner.sweep({ signal: value }))
    }
    assert.equal((await containers()).length, 1)
  }))

test('methods of a session', () =>
  inSession({ limits: { commandTimeoutMs: 5_000 } }, async session => {
    await session.writeFile('f', 'x')
    for (const value of ABSURD) {
      const calls = {
        path: () => session.readFile(value),
        read: () => session.readFile('f', value),
        write: () => session.writeFile(value, 'x'),
        contents: () => session.writeFile('g', value),
        writeOptions: () => session.writeFile('g', 'x', value),
        list: () => session.list(value),
        listOptions: () => session.list('.', value),
        exec: () => session.exec(value),
        authorize: () => session.authorize(value),
        execute: () => typeof value === 'function' || session.execute(value, value),
      }
      for (const key of ['encoding', 'offset', 'limit', 'signal'])
        calls[`read ${key}`] = () => session.readFile('f', { [key]: value })
      for (const key of ['mode', 'signal']) calls[`write ${key}`] = () => session.writeFile('g', 'x', { [key]: value })
      for (const key of ['depth', 'limit', 'signal']) calls[`list ${key}`] = () => session.list('.', { [key]: value })
      for (const key of ['command', 'args', 'cwd', 'env', 'stdin', 'timeoutMs', 'signal'])
        calls[`exec ${key}`] = () => session.exec({ command: 'true', [key]: value })
      calls['exec arg'] = () => session.exec({ command: 'true', args: [value] })
      calls['exec variable'] = () => session.exec({ command: 'true', env: { A: value } })
      await Promise.all(Object.entries(calls).map(([name, call]) => holds(`${name}: ${show(value)}`, call)))
    }
    // After all that the session is as good as before.
    assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'x')
    assert.equal((await session.exec({ command: 'echo', args: ['on'] })).stdout, 'on\n')
  }))

const INPUTS = 'path contents encoding offset limit mode depth command args cwd env stdin timeoutMs'.split(' ')

test('tools', () =>
  inSession({}, async session => {
    const tools = createDockerSandboxTools()
    const context = { executionEnvironment: session }
    const usual = {
      sandbox_read_file: { path: 'f' },
      sandbox_write_file: { path: 'f', contents: 'x' },
      sandbox_list: {},
      sandbox_exec: { command: 'true' },
    }
    /** A call that the schema lets through, or nothing. */
    const parse = (name, input) => {
      try {
        return tools[name].schema.safeParse(input).data
      } catch {
        return undefined // A getter threw, which is zod's affair.
      }
    }
    for (const value of ABSURD) {
      const calls = Object.entries(usual).flatMap(([name, input]) => [
        holds(`${name} context ${show(value)}`, () => tools[name].execute(input, value)),
        holds(`${name} session ${show(value)}`, () => tools[name].execute(input, { executionEnvironment: value })),
        holds(`${name} signal ${show(value)}`, () => tools[name].execute(input, { ...context, abortSignal: value })),
        ...INPUTS.map(key => [key, parse(name, { ...input, [key]: value })])
          .filter(([, parsed]) => parsed)
          .map(([key, parsed]) => holds(`${name} ${key} ${show(value)}`, () => tools[name].execute(parsed, context))),
      ])
      await Promise.all(calls)
    }
  }))

leavesNothing()
