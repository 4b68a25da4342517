import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { failure, fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

function start(overrides, options) {
  const { binding, calls } = fakeBinding(overrides)
  const api = createApi(binding)
  const client = api.createNodeDockerClient(options)
  return { api, client, calls }
}

const execOptions = { cmd: ['/bin/true'], user: '', workingDir: '/', timeoutMs: 1_000, maxOutputBytes: 10 }

test('the client has every method of the interface, and its kind', () => {
  const { api, client, calls } = start({}, { socketPath: '/run/x.sock', apiVersion: 'v1.41' })
  const names =
    'commitContainer createContainer createNetwork exec getArchive getArchiveStream info inspectContainer ' +
    'inspectImage killContainer kind listContainers pullImage putArchive realpath removeContainer removeImage ' +
    'removeNetwork startContainer'
  assert.equal(Object.keys(client).toSorted().join(' '), names)
  assert.deepEqual([client.kind, api.createMemoryDockerClient().kind], ['node', 'memory'])
  const [name, options] = calls[0]
  const { surroundings: _of, ...given } = JSON.parse(options)
  assert.deepEqual([name, given], ['dockerConnect', { socketPath: '/run/x.sock', apiVersion: 'v1.41' }])
  assert.deepEqual(Object.keys(JSON.parse(start().calls[0][1])), ['surroundings'])
})

test('what the process says of engines is read when a client or an environment is made', () => {
  const before = process.env.DOCKER_HOST
  try {
    process.env.DOCKER_HOST = 'unix:///of/the/process'
    const { api, calls } = start()
    delete process.env.DOCKER_HOST
    api.createDockerSandboxEnvironment({ workspace: { id: 'w' } })
    const [, connect] = calls.find(([name]) => name === 'dockerConnect')
    const prepare = calls.find(([name]) => name === 'prepareEnvironment')
    assert.deepEqual(JSON.parse(connect).surroundings, {
      DOCKER_HOST: 'unix:///of/the/process',
      HOME: process.env.HOME,
    })
    assert.deepEqual(JSON.parse(prepare[4]), { HOME: process.env.HOME })
  } finally {
    if (before !== undefined) process.env.DOCKER_HOST = before
  }
})

test('methods need no this and answer as declared', async () => {
  const { client, calls } = start()
  const { createContainer, inspectContainer, listContainers, removeContainer, startContainer, killContainer } = client
  assert.deepEqual(await createContainer({ image: 'i', labels: { a: 'b' }, name: undefined }), { Id: 'c1' })
  assert.equal(await startContainer('c1'), undefined)
  assert.deepEqual(await inspectContainer('c1'), { Id: 'c1', State: { Running: true } })
  assert.deepEqual(await listContainers('a=b'), [{ Id: 'c1', Labels: { a: 'b' } }])
  assert.equal(await killContainer('c1'), undefined)
  assert.equal(await killContainer('c1', 'SIGTERM'), undefined)
  assert.equal(await removeContainer('c1'), undefined)
  await assert.rejects(removeContainer('c1'), { name: 'SandboxError', code: 'NOT_FOUND' })
  const { getArchive, realpath, commitContainer, createNetwork, removeImage, removeNetwork } = client
  assert.deepEqual(await getArchive('c1', '/w/a', 9), { tar: new Uint8Array([1, 2]), stat: { name: 'a', size: 2 } })
  assert.equal(await realpath('c1', '/w'), '/w')
  assert.deepEqual(await commitContainer('c1', 'r', 't', { l: '1' }), { Id: 'sha256:image' })
  assert.deepEqual(await createNetwork('n'), { Id: 'n1', gateway: '172.18.0.1' })
  assert.deepEqual([await removeImage('i'), await removeNetwork('n1')], [undefined, undefined])
  const { info, inspectImage, pullImage } = client
  assert.deepEqual([await info(), await inspectImage('i')], [{ MemoryLimit: true }, { Id: 'sha256:i' }])
  assert.equal(await pullImage('i'), undefined)
  assert.deepEqual(calls.slice(1), [
    ['createContainer', '{"image":"i","labels":{"a":"b"}}'],
    ['startContainer', 'c1'],
    ['inspectContainer', 'c1'],
    ['listContainers', 'a=b'],
    ['killContainer', 'c1', 'SIGKILL'],
    ['killContainer', 'c1', 'SIGTERM'],
    ['removeContainer', 'c1'],
    ['removeContainer', 'c1'],
    ['getArchive', 'c1', '/w/a', 9],
    ['realpath', 'c1', '/w'],
    ['commitContainer', 'c1', 'r', 't', '{"l":"1"}'],
    ['createNetwork', 'n'],
    ['removeImage', 'i'],
    ['removeNetwork', 'n1'],
    ['info'],
    ['inspectImage', 'i'],
    ['pullImage', 'i'],
  ])
})

test('exec hands on what the interface has, and clamps as before', async () => {
  const { client, calls } = start()
  const result = {
    exitCode: 0,
    stdout: new Uint8Array([104, 105]),
    stderr: new Uint8Array(),
    truncated: false,
    timedOut: false,
  }
  const sent = async extra => {
    calls.length = 0
    assert.deepEqual(await client.exec('c1', { ...execOptions, ...extra }), result)
    return JSON.parse(calls[0][2])
  }
  assert.deepEqual(await sent({ env: ['A=1'], skipTerminate: true, marker: 'm', unknown: 1 }), {
    ...execOptions,
    env: ['A=1'],
    skipTerminate: true,
    marker: 'm',
  })
  assert.equal((await sent({ timeoutMs: Infinity })).timeoutMs, 1)
  assert.equal((await sent({ timeoutMs: NaN })).timeoutMs, 1)
  assert.equal((await sent({ maxOutputBytes: Infinity })).maxOutputBytes, Number.MAX_SAFE_INTEGER)
  const signal = AbortSignal.abort('why')
  await assert.rejects(client.exec('c1', { ...execOptions, signal }), { code: 'CANCELLED', cause: 'why' })
})

test('wrong arguments are named', async () => {
  const { client, calls } = start()
  calls.length = 0
  for (const call of [
    () => client.createContainer(undefined),
    () => client.createContainer({ image: 1n }),
    () => client.startContainer(''),
    () => client.inspectContainer(5),
    () => client.killContainer('c1', 9),
    () => client.listContainers(undefined),
    () => client.putArchive('c1', '/w', 'text'),
    () => client.putArchive('c1', '/w', 5),
    () => client.putArchive('c1', '', new Uint8Array()),
    () => client.getArchive('c1', '/w', '9'),
    () => client.exec('c1'),
    () => client.exec('c1', { ...execOptions, cmd: 'ls' }),
    () => client.exec('c1', { ...execOptions, maxOutputBytes: NaN }),
    () => client.exec('c1', { ...execOptions, user: undefined }),
    () => client.realpath('c1', 5),
    () => client.commitContainer('c1', 'r', 't', { l: Symbol('x') }),
  ]) {
    await assert.rejects(call, { name: 'SandboxError', code: 'CONFIG_INVALID' }, String(call))
  }
  assert.deepEqual(calls, [])
  const { api } = start()
  assert.throws(() => api.createNodeDockerClient({ socket: '/x' }), {
    code: 'CONFIG_INVALID',
    message: /no option "socket"/,
  })
  assert.throws(() => api.createNodeDockerClient('/x'), { code: 'CONFIG_INVALID' })
})

test('putArchive sends a private copy of its bytes', async () => {
  const { client, calls } = start()
  const tar = new Uint8Array([1, 2, 3])
  const pending = client.putArchive('c1', '/w', tar)
  tar.fill(0)
  assert.equal(await pending, undefined)
  assert.deepEqual(calls.at(-1), ['putArchive', 'c1', '/w', new Uint8Array([1, 2, 3])])
})

test('putArchive streams an iterable, and waits where there is no room for more', async () => {
  const log = []
  const { client, calls } = start({
    // Full after the first.
    'upload.push': piece => {
      log.push(`taken ${piece}`)
      return piece[0] !== 1
    },
    'upload.room': async () => {
      await new Promise(resolve => setImmediate(resolve))
      log.push('room')
      return null
    },
  })
  async function* pieces() {
    for (const piece of [[1, 2], [], [3], [4]]) {
      log.push(`made ${piece}`)
      yield new Uint8Array(piece)
    }
  }
  assert.equal(await client.putArchive('c1', '/w', pieces()), undefined)
  assert.deepEqual(log, ['made 1,2', 'taken 1,2', 'room', 'made ', 'made 3', 'taken 3', 'made 4', 'taken 4'])
  assert.deepEqual(calls.at(-1), ['upload.finish'])
  await client.putArchive('c1', '/w', [new Uint8Array([4])])
  assert.deepEqual(calls.slice(-2), [['upload.push', new Uint8Array([4])], ['upload.finish']])
})

test('an upload that fails is broken off, and the iterable closed', async () => {
  for (const [overrides, last, code] of [
    [{ 'upload.push': () => failure('RELEASED') }, new Uint8Array(1), 'RELEASED'],
    [{ 'upload.push': () => false, 'upload.room': () => failure('LIMIT') }, new Uint8Array(1), 'LIMIT'],
    [{ 'upload.finish': () => failure('LIMIT') }, new Uint8Array(1), 'LIMIT'],
    [{}, 'text', 'CONFIG_INVALID'],
  ]) {
    const { client, calls } = start(overrides)
    let closed = false
    const source = (function* () {
      try {
        yield last
      } finally {
        closed = true
      }
    })()
    await assert.rejects(client.putArchive('c1', '/w', source), { code })
    assert.deepEqual(calls.at(-1), ['upload.abort'])
    assert.equal(closed, true)
  }
  const mine = new Error('mine')
  const { client, calls } = start()
  const failing = (async function* () {
    yield new Uint8Array(1)
    throw mine
  })()
  await assert.rejects(client.putArchive('c1', '/w', failing), error => error === mine)
  assert.deepEqual(calls.at(-1), ['upload.abort'])
  const closedEngine = start({ putArchiveStream: () => failure('DOCKER_UNAVAILABLE') })
  await assert.rejects(closedEngine.client.putArchive('c1', '/w', []), { code: 'DOCKER_UNAVAILABLE' })
})

test('getArchiveStream gives the pieces once, and ends when left', async () => {
  const { client, calls } = start()
  const stream = client.getArchiveStream('c1', '/w', 99)
  assert.equal(calls.length, 1, 'nothing is asked before the first piece')
  const pieces = []
  for await (const piece of stream) pieces.push([...piece])
  assert.deepEqual(pieces, [[1], [2, 3]])
  assert.deepEqual(calls[1], ['getArchiveStream', 'c1', '/w', 99])
  assert.deepEqual(await stream.next(), { value: undefined, done: true })

  calls.length = 0
  for await (const _piece of client.getArchiveStream('c1', '/w')) break
  assert.deepEqual(calls.at(-1), ['download.cancel'])

  const failing = start({ 'download.next': () => failure('NOT_FOUND', 'no /w') })
  const broken = failing.client.getArchiveStream('c1', '/w')
  await assert.rejects(broken.next(), { code: 'NOT_FOUND', message: 'no /w' })
  assert.deepEqual(await broken.next(), { value: undefined, done: true })
})

test('leaving a download ends it also while a piece is awaited', async () => {
  let give
  const { client, calls } = start({ 'download.next': () => new Promise(resolve => (give = resolve)) })
  const stream = client.getArchiveStream('c1', '/w')
  const pending = stream.next()
  await stream.return()
  assert.deepEqual(calls.at(-1), ['download.cancel'])
  give(new Uint8Array([1]))
  assert.deepEqual(await pending, { value: undefined, done: true })
})

test('pieces of a download that are asked for at once come one after another', async () => {
  const asked = []
  const { client } = start({ 'download.next': () => new Promise(resolve => asked.push(resolve)) })
  const stream = client.getArchiveStream('c1', '/w')
  const pieces = [stream.next(), stream.next()]
  await new Promise(setImmediate)
  assert.equal(asked.length, 1)
  asked[0](new Uint8Array([1]))
  assert.deepEqual((await pieces[0]).value, new Uint8Array([1]))
  await new Promise(setImmediate)
  asked[1](null)
  assert.deepEqual(await pieces[1], { value: undefined, done: true })
})

test('memory stores: compare and set on the fence', async () => {
  const { api } = start()
  const store = api.createMemoryLeaseStore()
  const record = { key: 'k', fence: 1, holder: null, networkId: undefined }
  assert.equal(await store.load('k'), undefined)
  assert.equal(await store.save(record, null), true)
  assert.equal(await store.save(record, null), false)
  assert.equal(await store.save({ ...record, fence: 2 }, 1), true)
  assert.deepEqual(await store.load('k'), { key: 'k', fence: 2, holder: null })
  assert.deepEqual(await store.list('o'), [{ key: 'k', fence: 2, holder: null }])
  assert.equal(await store.remove('k', 2), true)
  for (const fence of [undefined, -1, 0.5, NaN, '1']) {
    await assert.rejects(store.save(record, fence), { code: 'CONFIG_INVALID' })
    await assert.rejects(store.remove('k', fence), { code: 'CONFIG_INVALID' })
  }
  await assert.rejects(store.load(''), { code: 'CONFIG_INVALID' })
  const snapshots = api.createMemorySnapshotStore()
  assert.equal(await snapshots.remove('k'), undefined)
  assert.equal(await snapshots.load('k'), undefined)
  for (const tar of [undefined, 'x', new Uint8Array(1)]) {
    await assert.rejects(snapshots.save('k', {}, tar), { code: 'CONFIG_INVALID' })
  }
})

test('file stores take a directory and nothing else', () => {
  const { api, calls } = start()
  for (const name of ['createFileLeaseStore', 'createFileSnapshotStore']) {
    const native = name.replace('createFile', 'file')
    api[name]({ directory: '/x' })
    assert.deepEqual(calls.at(-1), [native, '/x'])
    const message = new RegExp(name)
    for (const options of [undefined, {}, { directory: '' }, { directory: 1 }, { directory: '/x', other: 1 }, '/x']) {
      assert.throws(() => api[name](options), { code: 'CONFIG_INVALID', message })
    }
  }
})

test('the defaults are frozen', () => {
  const { api } = start()
  assert.deepEqual(api.dockerSandboxSecurityDefaults, { image: 'alpine:3.21', network: { mode: 'deny' } })
  assert.ok(Object.isFrozen(api.dockerSandboxSecurityDefaults.network))
  assert.ok(Object.isFrozen(api.allowlistProxyQuotaDefaults))
  assert.ok(Object.values(api.allowlistProxyQuotaDefaults).every(value => Number.isSafeInteger(value) && value > 0))
})
