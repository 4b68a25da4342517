// Hosts in processes of their own, and what a workspace may look like after what they said.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createFileLeaseStore, createFileSnapshotStore } from '../../../index.js'
import { MIB, RACER } from './room.mjs'

const HOST = fileURLToPath(new URL('host.mjs', import.meta.url))

/** `stores` in a `directory` of their own, which `remove` removes. */
export function fileStores() {
  const directory = mkdtempSync(join(tmpdir(), 'soak-'))
  return {
    directory,
    stores: {
      leaseStore: createFileLeaseStore({ directory }),
      snapshotStore: createFileSnapshotStore({ directory }),
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}

/** The same for every host of a run, or it would be another environment's. */
export const hostOptions = (ownerId, socketPath) => ({
  socketPath,
  ownerId,
  image: RACER,
  pull: 'never',
  shell: 'allow',
  transport: 'resident',
  workspace: { id: 'soak' },
  limits: { cpus: 2, memoryMb: 512, maxWorkspaceBytes: 128 * MIB, maxFileBytes: 8 * MIB, commandTimeoutMs: 120_000 },
})

/**
 * Starts a host. `heard` is told each of its words. Resolves `ended` with `{ signal, stderr }` when it is gone and all that it
 * said was heard.
 */
export function startHost(about, heard) {
  const child = spawn(process.execPath, [HOST, JSON.stringify(about)], { stdio: ['ignore', 'ignore', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', text => (stderr += text))
  // The last line of one that was killed may be half.
  const lines = createInterface({ input: child.stdio[3] })
  lines.on('line', line => {
    const words = parsed(line)
    if (words) heard(words)
  })
  const ended = new Promise(resolve => child.on('close', (code, signal) => resolve({ code, signal, stderr })))
  return { child, ended, kill: signal => child.kill(signal) }
}

function parsed(line) {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

/** What hosts began and what they were told was done: which versions each file may have. */
export class Model {
  #known = {}
  #open = new Map()
  #perhaps = []

  begin(id, path, version) {
    this.#open.set(id, { path, version })
  }

  end(id) {
    const { path, version } = this.#open.get(id) ?? {}
    this.#open.delete(id)
    // Who was followed meanwhile says nothing new.
    if (path) this.#known[path] = version
  }

  /** Operations that are under way. */
  get open() {
    return this.#open.size
  }

  /** The host is gone: what it did not hear the end of may be done or not. */
  gone() {
    this.#perhaps.push(...[...this.#open.values()].filter(({ path }) => path))
    this.#open.clear()
  }

  /** Whether the workspace is as the last acknowledged operation left it, or one that was not acknowledged, whole. */
  check({ files, others }, where) {
    const paths = new Set([
      ...Object.keys(this.#known),
      ...this.#perhaps.map(({ path }) => path),
      ...Object.keys(files),
    ])
    let done = 0
    for (const path of paths) {
      const unsure = this.#perhaps.filter(one => one.path === path).map(({ version }) => version)
      const may = [this.#known[path], ...unsure]
      assert.ok(may.includes(files[path]), `${where}: ${path} is ${files[path]}, and may be ${may.join(' or ')}`)
      done += unsure.includes(files[path]) ? 1 : 0
      if (files[path] !== undefined) this.#known[path] = files[path]
    }
    assert.deepEqual(
      others.filter(path => path !== 'c.part'),
      [],
      `${where}: a half write is left`,
    )
    const unsure = this.#perhaps.length
    this.#perhaps = []
    return { done, undone: unsure - done }
  }
}
