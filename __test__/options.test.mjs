import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')

/** What the native part is given for these options. */
function prepared(options) {
  const { binding, calls } = fakeBinding()
  createApi(binding).createDockerSandboxEnvironment(options)
  const [, json, blobs, docker, , leases, snapshots] = calls.find(([name]) => name === 'prepareEnvironment')
  return { encoded: JSON.parse(json), blobs, docker, leases, snapshots }
}

/** The error for these options. */
function refused(options) {
  const { binding } = fakeBinding()
  try {
    createApi(binding).createDockerSandboxEnvironment(options)
  } catch (error) {
    assert.equal(error.name, 'SandboxError')
    return `${error.code}: ${error.message}`
  }
  return assert.fail('the options were accepted')
}

const workspace = { id: 'w' }

test('plain options cross as they are, undefined ones not at all', () => {
  const { encoded, blobs, docker, leases, snapshots } = prepared({
    id: 'env',
    version: undefined,
    workspace: { id: 'w', directories: ['src'], exec: false },
    limits: { cpus: 0.25, pids: undefined },
    env: Object.assign(Object.create(null), { A: 'b' }),
  })
  assert.deepEqual(encoded, {
    id: 'env',
    workspace: { id: 'w', directories: ['src'], exec: false },
    limits: { cpus: 0.25 },
    env: { A: 'b' },
  })
  assert.deepEqual([blobs, docker, leases, snapshots], [[], undefined, undefined, undefined])
})

test('file contents cross as copies of their bytes', () => {
  const bytes = new Uint8Array([9, 1, 2, 9]).subarray(1, 3)
  const shared = new Uint8Array(new SharedArrayBuffer(2)).fill(7)
  const view = new DataView(new Uint8Array([5, 6, 7]).buffer, 1, 1)
  const contents = ['é', bytes, Buffer.from('hi'), shared, view, new ArrayBuffer(1), '']
  const files = contents.map((content, index) => ({ path: `f${index}`, contents: content, mode: 0o600 }))
  const { encoded, blobs } = prepared({ workspace: { id: 'w', files } })
  bytes.fill(0)
  shared.fill(0)
  assert.deepEqual(
    encoded.workspace.files,
    contents.map((_, index) => ({ path: `f${index}`, contents: { $blob: index }, mode: 0o600 })),
  )
  assert.deepEqual(
    blobs.map(blob => [...blob]),
    [[0xc3, 0xa9], [1, 2], [0x68, 0x69], [7, 7], [6], [0], []],
  )
  assert.ok(blobs.every(blob => blob.constructor === Uint8Array && !(blob.buffer instanceof SharedArrayBuffer)))
})

test('a detached buffer is an error, not an empty file', () => {
  const bytes = new Uint8Array([1, 2, 3])
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] })
  assert.equal(bytes.length, 0)
  const message = refused({ workspace: { id: 'w', files: [{ path: 'a', contents: bytes }] } })
  assert.match(message, /^CONFIG_INVALID: workspace\.files\[0\]\.contents cannot be read, its memory is gone/)
})

test('what JSON cannot hold is marked with what it was', () => {
  class Settings {}
  const cycle = { id: 'w' }
  cycle.self = cycle
  for (const [value, shown] of [
    [NaN, 'NaN'],
    [-Infinity, '-Infinity'],
    [10n, 'a bigint'],
    [Symbol('s'), 'a symbol'],
    [() => 1, 'a function'],
    [new Settings(), 'an object of class Settings'],
    [new Map(), 'an object of class Map'],
    [new Date(0), 'an object of class Date'],
    [new Uint8Array(2), 'an object of class Uint8Array'],
    [Object('boxed'), 'an object of class String'],
    ['\ud800', 'invalid Unicode'],
    [{ $blob: 0 }, 'an object with the key "$blob"'],
    [{ $invalid: 'x' }, 'an object with the key "$invalid"'],
    [Array(200_000), 'an array of 200000 items'],
  ]) {
    assert.deepEqual(prepared({ workspace, image: value }).encoded.image, { $invalid: shown })
    assert.deepEqual(prepared({ workspace, limits: { x: [value] } }).encoded.limits, { x: [{ $invalid: shown }] })
  }
  assert.deepEqual(prepared({ workspace: cycle }).encoded.workspace.self, {
    $invalid: 'a reference to an object around it',
  })
  assert.deepEqual(prepared({ workspace, declaredTools: ['a', undefined, ...Array(1), 'b'] }).encoded.declaredTools, [
    'a',
    { $invalid: 'undefined' },
    { $invalid: 'undefined' },
    'b',
  ])
})

test('the same object twice is no cycle', () => {
  const same = { path: 'a' }
  assert.deepEqual(prepared({ workspace: { id: 'w', files: [same, same] } }).encoded.workspace.files, [same, same])
})

test('a key "__proto__" stays a key', () => {
  const { binding, calls } = fakeBinding()
  const options = JSON.parse('{"workspace":{"id":"w"},"env":{"__proto__":"x"},"__proto__":{"image":"evil"}}')
  createApi(binding).createDockerSandboxEnvironment(options)
  const [, json] = calls.find(([name]) => name === 'prepareEnvironment')
  assert.equal(json, '{"workspace":{"id":"w"},"env":{"__proto__":"x"},"__proto__":{"image":"evil"}}')
})

test('each option is read once', () => {
  let reads = 0
  const options = {
    workspace,
    get image() {
      return `image-${++reads}`
    },
  }
  assert.equal(prepared(options).encoded.image, 'image-1')
  assert.equal(reads, 1)
})

test('a proxy that behaves is read; one that does not is named', () => {
  assert.equal(prepared(new Proxy({ workspace, image: 'i' }, {})).encoded.image, 'i')
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const cause = new Error('secret in a getter')
  const throwing = {
    get id() {
      throw cause
    },
  }
  const endless = new Proxy({}, { ownKeys: () => ['x'], getOwnPropertyDescriptor: describe, get: () => endless })
  const fresh = () => new Proxy({}, { ownKeys: () => ['x'], getOwnPropertyDescriptor: describe, get: fresh })
  function describe() {
    return { configurable: true, enumerable: true, value: 1, writable: true }
  }
  assert.match(refused(proxy), /^CONFIG_INVALID: The options of createDockerSandboxEnvironment/)
  assert.match(refused({ workspace, limits: proxy }), /^CONFIG_INVALID: Option limits cannot be read/)
  assert.equal(
    refused({ workspace: throwing }),
    'CONFIG_INVALID: Option workspace.id cannot be read: looking at it threw an error.',
  )
  assert.match(refused(new Proxy({}, { ownKeys: () => assert.fail() })), /^CONFIG_INVALID/)
  assert.match(JSON.stringify(prepared({ workspace, tmp: endless }).encoded.tmp), /a reference to an object around it/)
  assert.match(JSON.stringify(prepared({ workspace, tmp: fresh() }).encoded.tmp), /nested too deeply/)
})

test('options that are no plain object are refused', () => {
  for (const options of [undefined, null, 1, 'x', [], new Map(), () => 1]) {
    assert.match(refused(options), /^CONFIG_INVALID: The options of createDockerSandboxEnvironment was .* plain object/)
  }
})

test('our own clients and stores cross as their handles', () => {
  const { binding, calls } = fakeBinding()
  const api = createApi(binding)
  api.createDockerSandboxEnvironment({
    workspace,
    client: api.createMemoryDockerClient(),
    leaseStore: api.createMemoryLeaseStore(),
    snapshotStore: api.createMemorySnapshotStore(),
  })
  const [, json, , docker, , leases, snapshots] = calls.find(([name]) => name === 'prepareEnvironment')
  assert.equal(json, '{"workspace":{"id":"w"}}')
  assert.equal(docker.kind(), 'memory')
  assert.equal(typeof docker.putArchiveStream, 'function')
  assert.deepEqual([typeof leases.save, typeof snapshots.remove], ['function', 'function'])
})

test('an application’s own client and stores are called back; malformed ones: which method is missing', () => {
  const { binding, calls } = fakeBinding()
  const api = createApi(binding)
  const refusal = extra => {
    try {
      api.createDockerSandboxEnvironment({ workspace, ...extra })
    } catch (error) {
      return `${error.code}: ${error.message}`
    }
    return assert.fail('accepted')
  }
  // A copy may have methods of the application's own, so it is not taken for ours.
  const { exec: _exec, ...withoutExec } = api.createNodeDockerClient()
  const { save: _save, ...withoutSave } = api.createMemorySnapshotStore()
  const { info: _info, pullImage: _pullImage, ...plain } = api.createMemoryDockerClient()
  api.createDockerSandboxEnvironment({ workspace, client: plain })
  api.createDockerSandboxEnvironment({
    workspace,
    client: { ...api.createNodeDockerClient() },
    leaseStore: { ...api.createMemoryLeaseStore() },
    snapshotStore: { ...api.createMemorySnapshotStore() },
  })
  const wrapped = calls.filter(([name]) => name.startsWith('js'))
  assert.deepEqual(
    wrapped.map(([name, dispatch, ...rest]) => [name, typeof dispatch, ...rest]),
    [
      ['jsDockerClient', 'function', true, ['inspectImage']],
      ['jsDockerClient', 'function', false, ['info', 'inspectImage', 'pullImage']],
      ['jsLeaseStore', 'function'],
      ['jsSnapshotStore', 'function'],
    ],
  )
  assert.match(refusal({ client: withoutExec }), /^CONFIG_INVALID: Option client\.exec was undefined; .* a method/)
  const kind = /^CONFIG_INVALID: Option client\.kind was .*; it must be "node" or "memory"\.$/
  for (const value of [undefined, 'real', 5]) assert.match(refusal({ client: { ...plain, kind: value } }), kind)
  assert.match(
    refusal({ client: { ...plain, info: 5 } }),
    /^CONFIG_INVALID: Option client\.info was 5; .* or absent\.$/,
  )
  assert.match(refusal({ leaseStore: {} }), /^CONFIG_INVALID: Option leaseStore\.load was undefined/)
  assert.match(refusal({ snapshotStore: withoutSave }), /^CONFIG_INVALID: Option snapshotStore\.save was undefined/)
  for (const value of [null, 'node', 1]) assert.match(refusal({ client: value }), /^CONFIG_INVALID: Option client was/)
})
