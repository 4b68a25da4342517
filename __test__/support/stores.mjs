// Stores as an application might write them, and what the tests of stores share.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../../index.js'

export const record = (key, fence = 1, more = {}) => ({
  key,
  runId: 'r',
  environmentId: 'e',
  workspaceId: 'w',
  fingerprint: 'sha256:0',
  ownerId: 'o',
  containerId: 'c',
  containerName: 'n',
  imageIds: [],
  token: 't',
  fence,
  holder: null,
  expiresAt: 1,
  status: 'running',
  snapshotState: 'none',
  ...more,
})

export const meta = { runId: 'r', fingerprint: 'sha256:0', createdAt: 7 }

/** A lease store with a class's private state: its methods work only when they are called as methods. */
export class Leases {
  #records = new Map()
  calls = []
  /** Replaces a method's answer where a test needs another one. */
  overrides = {}

  async #run(method, args, standard) {
    this.calls.push([method, ...args])
    const override = this.overrides[method]
    return override ? override(...args) : standard()
  }
  load(key) {
    return this.#run('load', [key], () => structuredClone(this.#records.get(key)))
  }
  save(lease, expectedFence) {
    return this.#run('save', [lease, expectedFence], () => {
      if ((this.#records.get(lease.key)?.fence ?? null) !== expectedFence) return false
      this.#records.set(lease.key, structuredClone(lease))
      return true
    })
  }
  remove(key, expectedFence) {
    return this.#run('remove', [key, expectedFence], () => {
      return this.#records.get(key)?.fence === expectedFence && this.#records.delete(key)
    })
  }
  list(ownerId) {
    return this.#run('list', [ownerId], () => this.all().filter(lease => lease.ownerId === ownerId))
  }
  all() {
    return [...this.#records.values()]
  }
  put(lease) {
    this.#records.set(lease.key, lease)
  }
}

/** A snapshot store of the same kind. Saves are whole or nothing, as the contract asks. */
export class Snapshots {
  #kept = new Map()
  overrides = {}

  async load(key) {
    if (this.overrides.load) return this.overrides.load(key)
    const found = this.#kept.get(key)
    return found && { meta: found.meta, tar: piecesOf(found.pieces) }
  }
  async save(key, about, tar) {
    if (this.overrides.save) return this.overrides.save(key, about, tar)
    const pieces = []
    for await (const piece of tar) pieces.push(piece.slice())
    this.#kept.set(key, { meta: about, pieces })
  }
  async remove(key) {
    if (this.overrides.remove) return this.overrides.remove(key)
    this.#kept.delete(key)
  }
  bytes(key) {
    return this.#kept.has(key) ? Buffer.concat(this.#kept.get(key).pieces) : undefined
  }
  get size() {
    return this.#kept.size
  }
  get keys() {
    return [...this.#kept.keys()]
  }
}

export async function* piecesOf(pieces) {
  yield* pieces
}

/** All bytes of a tar. */
export async function bytesOf(tar) {
  const pieces = []
  for await (const piece of tar) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** An environment over the in-memory engine. */
export const environment = options =>
  createDockerSandboxEnvironment({
    client: createMemoryDockerClient(),
    workspace: { id: 'w' },
    shell: 'allow',
    ...options,
  })

/** The rejection's `code` and message, after a check that it is an error of ours. */
export async function failureOf(promise) {
  try {
    await promise
  } catch (error) {
    assert.ok(['SandboxError', 'ConflictError'].includes(error?.name), String(error?.stack))
    return error
  }
  return assert.fail('it did not reject')
}

/** Waits until `check` is true; fails after 10 s. */
export async function eventually(what, check) {
  const deadline = performance.now() + 10_000
  while (!check()) {
    if (performance.now() > deadline) assert.fail(`${what}: not within 10 s`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** A directory for the file that asks, removed after its tests. */
export function temporaryDirectory() {
  const root = mkdtempSync(join(tmpdir(), 'sandbox-stores-'))
  after(() => rmSync(root, { recursive: true, force: true }))
  return root
}
