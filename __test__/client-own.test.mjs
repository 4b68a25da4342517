// A Docker client that the application wrote: called as methods, its answers checked, its failures told by name.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SandboxError, createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { PlainClient } from './support/plain-client.mjs'
import { eventually, failureOf } from './support/stores.mjs'

const setup = (options = {}) => {
  const memory = createMemoryDockerClient()
  const client = new PlainClient(memory)
  const make = () =>
    createDockerSandboxEnvironment({ client, workspace: { id: 'w' }, shell: 'allow', ownerId: 'o', ...options })
  return { memory, client, make, owner: make(), left: () => memory.listContainers('zhivex.sandbox=1') }
}

test('a run lives on a client of the application’s own', async () => {
  const { client, owner, left } = setup({ workspace: { id: 'w', files: [{ path: 'seed', contents: 's' }] } })
  const session = await owner.acquire({ runId: 'r' })
  assert.deepEqual([session.manifest.assurance, session.capabilities.transport], ['best-effort', 'exec'])
  assert.equal(session.capabilities.raceFreePaths, false)
  assert.equal((await session.writeFile('d/f', 'kept')).size, 4)
  assert.deepEqual(
    (await session.list('.', { depth: 2 })).entries.map(({ path }) => path),
    ['d', 'd/f', 'seed'],
  )
  const { exitCode, stdout, outcome } = await session.exec({ command: 'cat', args: ['d/f'] })
  assert.deepEqual([exitCode, stdout, outcome], [0, 'kept', 'exited'])
  const stream = await session.execStream({ command: 'cat', args: ['seed'] })
  const pieces = []
  for await (const { data } of stream) pieces.push(Buffer.from(data).toString())
  assert.equal(pieces.join(''), 's')
  await session.release({ status: 'waiting_approval' })

  const again = await owner.acquire({ runId: 'r' })
  assert.equal((await again.readFile('d/f', { encoding: 'utf8' })).contents, 'kept')
  await again.release({ status: 'suspended' })
  for (const { Id } of await left()) await client.removeContainer(Id)
  const restored = await owner.acquire({ runId: 'r' })
  assert.equal((await restored.readFile('d/f', { encoding: 'utf8' })).contents, 'kept')
  await restored.release({ status: 'completed' })
  assert.deepEqual(await left(), [])
})

test('what it is called with is the interface’s, and more only where that is documented', async () => {
  const { client, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  await session.exec({ command: 'echo', args: ['x'] })
  await session.release({ status: 'completed' })
  const [, spec] = client.calls.find(([method]) => method === 'createContainer')
  assert.equal(Object.getPrototypeOf(spec), Object.prototype)
  assert.deepEqual(spec.cmd, spec.entrypoint)
  assert.deepEqual([spec.networkMode, spec.readonlyRootfs, spec.user], ['none', true, '65534:65534'])
  const [, , options] = client.calls.findLast(([method]) => method === 'exec')
  assert.deepEqual([options.cmd, options.user, options.workingDir], [['echo', 'x'], '65534:65534', '/workspace'])
  assert.ok(options.signal instanceof AbortSignal)
  assert.equal(options.skipTerminate, true)
})

test('assurance: a double refuses "enforced"; another client is best-effort, and checked where more is asked', async () => {
  const make = (client, more) => createDockerSandboxEnvironment({ client, workspace: { id: 'w' }, ...more })
  const double = new PlainClient(createMemoryDockerClient())
  assert.throws(() => make(double, { assurance: 'enforced' }), { code: 'UNSUPPORTED' })
  const real = extra => Object.assign(new PlainClient(createMemoryDockerClient(), 'node'), extra)
  assert.equal(make(real()).manifest.assurance, 'best-effort')
  const acquiring = async client => {
    const owner = make(client, { assurance: 'enforced' })
    assert.equal(owner.manifest.assurance, 'enforced')
    return failureOf(owner.acquire({ runId: 'r' }))
  }
  const engine = {
    MemoryLimit: true,
    SwapLimit: true,
    PidsLimit: true,
    CpuCfsQuota: true,
    SecurityOptions: ['name=seccomp,profile=default'],
  }
  const inspectImage = async () => ({ Id: 'sha256:0' })
  for (const [client, message] of [
    [real(), /client\.info\(\), which the application's own client does not have/],
    [real({ info: async () => engine }), /client\.inspectImage\(\), which/],
    [real({ info: async () => ({ ...engine, SwapLimit: false }), inspectImage }), /cannot enforce: swap limits/],
    [real({ info: async () => engine, inspectImage }), /client\.inspectContainer\(\) tells too little/],
  ]) {
    const error = await acquiring(client)
    assert.deepEqual([error.code, message.test(error.message)], ['UNSUPPORTED', true], error.message)
  }
  // One whose inspections are whole, and show what it left out.
  const partly = real({ info: async () => engine, inspectImage })
  partly.overrides.inspectContainer = async () => {
    const [, spec] = partly.calls.find(([method]) => method === 'createContainer')
    return {
      Id: 'c',
      State: { Running: true, Status: 'created', OOMKilled: false, ExitCode: 0 },
      Config: { Labels: spec.labels, User: spec.user },
      HostConfig: {
        NanoCpus: spec.nanoCpus,
        PidsLimit: spec.pidsLimit,
        Memory: spec.memoryBytes,
        MemorySwap: spec.memoryBytes,
        NetworkMode: 'none',
        ReadonlyRootfs: true,
        Tmpfs: spec.tmpfs,
        SecurityOpt: ['no-new-privileges:true'],
        IpcMode: 'private',
      },
    }
  }
  const error = await acquiring(partly)
  assert.match(error.message, /made a container without: dropped capabilities, ipcMode none\./)
})

const secret = 'https://user:secret@engine'

test('what it throws or rejects with is named, and is the cause; its words are not in the message', async () => {
  const thrown = Object.assign(new TypeError(secret), { code: 'ECONNREFUSED' })
  const ways = {
    throws: () => {
      throw thrown
    },
    rejects: () => Promise.reject(thrown),
  }
  for (const way of Object.values(ways)) {
    for (const method of ['createContainer', 'inspectContainer', 'startContainer']) {
      const { client, owner, left } = setup()
      // Not an async method: what it throws, it throws at once.
      client[method] = way
      const error = await failureOf(owner.acquire({ runId: 'r' }))
      assert.deepEqual(
        [error.code, error.message],
        [
          'DOCKER_API',
          `client.${method}() of the application's own Docker client failed with TypeError ECONNREFUSED; the cause is what it failed with.`,
        ],
      )
      assert.equal(error.cause, thrown)
      if (method !== 'createContainer') assert.deepEqual(await left(), [], method)
    }
  }
})

test('anything can be thrown', async () => {
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('no')
      },
    },
  )
  for (const thrown of [undefined, null, 'text', 5, Symbol('s'), hostile, Object.create(null)]) {
    const { client, owner } = setup()
    client.createContainer = () => Promise.reject(thrown)
    const error = await failureOf(owner.acquire({ runId: 'r' }))
    assert.deepEqual([error.code, error.cause], ['DOCKER_API', thrown])
  }
})

test('a code of ours is kept, whoever made the error; so is the status of an HTTP client', async () => {
  for (const [thrown, code] of [
    [new SandboxError('DOCKER_UNAVAILABLE', 'no socket'), 'DOCKER_UNAVAILABLE'],
    [Object.assign(new Error(secret), { code: 'LIMIT' }), 'LIMIT'],
    [Object.assign(new Error(secret), { statusCode: 404 }), 'NOT_FOUND'],
    [Object.assign(new Error(secret), { statusCode: 500 }), 'DOCKER_API'],
  ]) {
    const { client, owner } = setup()
    client.overrides.createContainer = () => Promise.reject(thrown)
    const error = await failureOf(owner.acquire({ runId: 'r' }))
    assert.deepEqual([error.code, error.cause, error.message.includes(secret)], [code, thrown, false])
  }
  for (const thrown of [
    Object.assign(new Error('taken'), { statusCode: 409 }),
    Object.assign(new Error('taken'), { name: 'ConflictError' }),
  ]) {
    const { client, owner } = setup()
    client.overrides.createContainer = () => Promise.reject(thrown)
    const error = await failureOf(owner.acquire({ runId: 'r' }))
    assert.deepEqual([error.name, /no lease in this lease store/.test(error.message)], ['ConflictError', true])
    // Nowhere else is a conflict theirs to tell.
    client.overrides = { startContainer: () => Promise.reject(thrown) }
    assert.notEqual((await failureOf(owner.acquire({ runId: 'r' }))).name, 'ConflictError')
  }
})

test('a container that is gone when it is to be removed is fine', async () => {
  for (const [refusal, told] of [
    [Object.assign(new Error('gone'), { statusCode: 404 }), 'released'],
    [Object.assign(new Error('busy'), { statusCode: 409 }), 'release_failed'],
  ]) {
    const types = []
    const { client, owner } = setup({ onEvent: ({ type }) => types.push(type) })
    const session = await owner.acquire({ runId: 'r' })
    client.overrides.removeContainer = () => Promise.reject(refusal)
    assert.equal(await session.release({ status: 'completed' }), undefined)
    await eventually('the release is told', () => types.includes(told))
  }
})

test('what it answers is checked', async () => {
  const rubbish = [undefined, null, 5, 'text', [], {}, { Id: 5 }, { Id: '' }, () => 1, Symbol('s'), { Id: 1n }]
  for (const method of ['createContainer', 'inspectContainer']) {
    for (const answer of rubbish) {
      const { client, owner } = setup()
      client.overrides[method] = () => answer
      const error = await failureOf(owner.acquire({ runId: 'r' }))
      assert.equal(error.code, 'CONFIG_INVALID', `${method} ${String(answer)}: ${error.message}`)
      assert.match(error.message, new RegExp(`^client\\.${method}\\(\\)(:| answered what it may not:) `))
    }
  }
  const { client, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  const whole = { exitCode: 0, stdout: new Uint8Array(), stderr: new Uint8Array(), truncated: false, timedOut: false }
  for (const [answer, message] of [
    [undefined, /^client\.exec\(\): its result was undefined; it must be an object\./],
    [
      { ...whole, stdout: 'text' },
      /^client\.exec\(\): its result\.stdout was a string of 4 characters; .* a Uint8Array\./,
    ],
    [{ ...whole, exitCode: '0' }, /^client\.exec\(\) answered what it may not: /],
    [{ ...whole, exitCode: Number.NaN }, /^client\.exec\(\): its result\.exitCode was NaN; /],
    [{ ...whole, timedOut: undefined }, /^client\.exec\(\) answered what it may not: missing field/],
    [
      {
        ...whole,
        get truncated() {
          throw new Error('no')
        },
      },
      /^client\.exec\(\): its result\.truncated cannot be read/,
    ],
  ]) {
    client.overrides = { exec: () => answer }
    const error = await failureOf(session.exec({ command: 'true' }))
    assert.deepEqual([error.code, message.test(error.message)], ['CONFIG_INVALID', true], error.message)
  }
  for (const answer of [undefined, 5, 'relative', '/a\0b', {}]) {
    client.overrides = { realpath: () => answer }
    assert.match((await failureOf(session.readFile('f'))).code, /^(CONFIG_INVALID|PATH_INVALID)$/)
  }
  for (const answer of [undefined, {}, { tar: 'text' }, { tar: new Uint8Array(7) }]) {
    client.overrides = { getArchive: () => answer }
    assert.match((await failureOf(session.list())).code, /^(CONFIG_INVALID|DOCKER_API)$/)
  }
  client.overrides = {}
  assert.deepEqual((await session.list()).entries, [])
  await session.release({ status: 'completed' })
})

test('a command’s signal fires with the call’s, and a client that does not care holds nobody up', async () => {
  const { client, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  const signals = []
  for (const minds of [true, false]) {
    client.overrides.exec = (_id, { signal }) =>
      new Promise((_resolve, reject) => {
        signals.push(signal)
        if (minds) signal.addEventListener('abort', () => reject(signal.reason))
      })
    const controller = new AbortController()
    const reason = new Error('enough')
    const running = failureOf(session.exec({ command: 'sleep', signal: controller.signal }))
    await eventually('it runs', () => signals.length === (minds ? 1 : 2))
    const from = performance.now()
    controller.abort(reason)
    const error = await running
    assert.deepEqual([error.code, error.cause], ['CANCELLED', reason])
    assert.equal(signals.at(-1).aborted, true)
    // 5 s are given to a client to end by itself.
    assert.ok(performance.now() - from < (minds ? 2_000 : 9_000))
  }
  client.overrides = {}
  await session.release({ status: 'completed' })
})

test('a release ends a command that never ends, and never rejects', async () => {
  const { client, owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  let begun = false
  client.overrides.exec = () => {
    begun = true
    return new Promise(() => undefined)
  }
  const running = failureOf(session.exec({ command: 'sleep' }))
  await eventually('it runs', () => begun)
  client.overrides.removeContainer = () => {
    throw new Error(secret)
  }
  assert.equal(await session.release({ status: 'completed' }), undefined)
  assert.equal((await running).code, 'RELEASED')
})

test('input is UNSUPPORTED, and says what to do', async () => {
  const { owner } = setup()
  const session = await owner.acquire({ runId: 'r' })
  const error = await failureOf(session.exec({ command: 'cat', stdin: 'x' }))
  assert.deepEqual([error.code, /Write a file/.test(error.message)], ['UNSUPPORTED', true], error.message)
  const spawned = await session.spawn({ command: 'cat' })
  assert.equal((await failureOf(spawned.result)).code, 'UNSUPPORTED')
  await session.release({ status: 'completed' })
})

test('images: asked for where the client can tell, and fetched where it can', async () => {
  const make = more => Object.assign(new PlainClient(createMemoryDockerClient()), more)
  const acquire = async (client, options) => {
    const owner = createDockerSandboxEnvironment({ client, workspace: { id: 'w' }, ...options })
    const session = await owner.acquire({ runId: 'r' })
    await session.release({ status: 'completed' })
    return client.calls.find(([method]) => method === 'createContainer')[1]
  }
  assert.equal((await failureOf(acquire(make(), { pull: 'always' }))).code, 'UNSUPPORTED')
  const pulled = []
  const image = { Id: 'sha256:1', Config: { Env: ['PATH=/x', 'SECRET=1'], Volumes: { '/data': {} } } }
  const spec = await acquire(
    make({ pullImage: async name => void pulled.push(name), inspectImage: async () => image }),
    { pull: 'always', image: 'alpine:3.21' },
  ).catch(error => error)
  // The double's container is of another image than the client says: a tag that was moved.
  assert.deepEqual([pulled, spec.code], [['alpine:3.21'], undefined])
  assert.ok(spec.env.includes('SECRET') && Object.hasOwn(spec.tmpfs, '/data'))
})
