// Stores and Docker clients of the application's own and the end of what they live in: processes end by themselves, workers at any moment.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { createFileLeaseStore } from '../index.js'
import { temporaryDirectory } from './support/stores.mjs'

const SUPPORT = JSON.stringify(new URL('support/stores.mjs', import.meta.url).href)
const CLIENTS = JSON.stringify(new URL('support/plain-client.mjs', import.meta.url).href)
const ENTRY = JSON.stringify(new URL('../index.js', import.meta.url).href)
const TIMEOUT_MS = 20_000

/** Runs a program that finds a store of each kind, and a `client`. Resolves to how it ended; it is killed if it does not. */
function runProgram(program) {
  const source = `const { Leases, Snapshots, environment } = await import(${SUPPORT})
    const { PlainClient } = await import(${CLIENTS})
    const { createMemoryDockerClient } = await import(${ENTRY})
    const client = new PlainClient(createMemoryDockerClient())
    const leaseStore = new Leases()
    const snapshotStore = new Snapshots()
    const owner = environment({ leaseStore, snapshotStore, ownerId: 'o', leaseMs: 300 })
    const never = () => new Promise(() => undefined)
    ${program}`
  const args = process.versions.bun ? ['-e', source] : ['--input-type=module', '-e', source]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS)
  const said = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'])
    child[stream].setEncoding('utf8').on('data', text => (said[stream] += text))
  return new Promise(resolve => {
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, ...said })
    })
  })
}

const PROGRAMS = {
  'an environment that did nothing': 'console.log("done")',
  'a session that was never released, whose lease beats': `
    const session = await owner.acquire({ runId: 'r' })
    await session.writeFile('f', 'x')
    console.log("done")`,
  'a process in the background that a signal may end': `
    const session = await owner.acquire({ runId: 'r' })
    const { signal } = new AbortController()
    const spawned = await session.spawn({ command: 'sleep', args: ['100'], signal })
    await session.spawn({ command: 'sleep', args: ['100'], signal })
    globalThis.held = { signal, spawned }
    console.log("done")`,
  'a store that stopped answering beats': `
    const session = await owner.acquire({ runId: 'r' })
    leaseStore.overrides.load = never
    await new Promise(resolve => setTimeout(resolve, 300))
    console.log("done")`,
  'a process that was stopped in the middle of calls for longer than they may take': `
    const { spawn } = await import('node:child_process')
    const slept = () => {
      spawn('sh', ['-c', 'sleep 9; kill -CONT ' + process.pid], { stdio: 'ignore' }).unref()
      process.kill(process.pid, 'SIGSTOP')
    }
    const told = []
    const patient = environment({ leaseStore, snapshotStore, ownerId: 'o', onEvent: ({ type }) => told.push(type) })
    const session = await patient.acquire({ runId: 'r' })
    const { save } = leaseStore
    leaseStore.save = (...args) => { delete leaseStore.save; slept(); return save.apply(leaseStore, args) }
    await session.release({ status: 'suspended' })
    console.log(told.at(-1) === 'released' && leaseStore.all()[0].holder === null ? "done" : told)`,
  'process.exit in the middle of a call': `
    leaseStore.overrides.load = () => { console.log("done"); process.exit(0) }
    await owner.acquire({ runId: 'r' })`,
  'an exception of the application in the middle of a call': `
    process.on('uncaughtException', error => { console.log(error); process.exit(0) })
    leaseStore.overrides.load = () => { setImmediate(() => { throw 'done' }); return never() }
    await owner.acquire({ runId: 'r' })`,
  'a client that never answers a command, once the environment is closed': `
    const closing = environment({ client })
    const session = await closing.acquire({ runId: 'r' })
    client.overrides.exec = () => { setImmediate(() => closing.close()); return never() }
    session.exec({ command: 'true' }).catch(error => console.log(error.code === 'RELEASED' ? "done" : error))`,
  'a client that answers no beat and no release': `
    const session = await environment({ client, leaseMs: 300 }).acquire({ runId: 'r' })
    client.overrides.removeContainer = () => { console.log("done"); return never() }
    await Promise.race([session.release({ status: 'completed' }), new Promise(resolve => setTimeout(resolve, 300))])
    process.exit(0)`,
  'process.exit in the middle of a command of a client': `
    const session = await environment({ client }).acquire({ runId: 'r' })
    client.overrides.exec = () => { console.log("done"); process.exit(0) }
    await session.exec({ command: 'true' })`,
  'a client whose command throws when its signal fires': `
    const session = await environment({ client }).acquire({ runId: 'r' })
    const controller = new AbortController()
    client.overrides.exec = (_id, { signal }) => {
      signal.onabort = () => { throw 'done' }
      setTimeout(() => controller.abort(), 50)
      return never()
    }
    process.on('uncaughtException', error => { console.log(error); process.exit(0) })
    await session.exec({ command: 'true', signal: controller.signal })`,
}

for (const [what, program] of Object.entries(PROGRAMS)) {
  test(`a process ends by itself: ${what}`, async () => {
    assert.deepEqual(await runProgram(program), { code: 0, signal: null, stdout: 'done\n', stderr: '' })
  })
}

// Bun's workers can be ended in the middle of native calls from 1.4 on.
const workers = !process.versions.bun || Number(process.versions.bun.split('.')[1]) >= 4

for (const what of ['load', 'beat', 'save', 'next', 'exec']) {
  test(`workers that end in the middle of "${what}" take nobody along`, { skip: !workers }, async () => {
    for (let n = 0; n < 20; n++) {
      const worker = new Worker(new URL('support/store-worker.mjs', import.meta.url), { workerData: { what } })
      await new Promise((resolve, reject) => {
        worker.once('message', resolve)
        worker.once('error', reject)
      })
      await worker.terminate()
    }
  })
}

const directory = temporaryDirectory()
const HOLDS = `
  const { parentPort, workerData } = require('node:worker_threads')
  const api = require(workerData.entry)
  const owner = api.createDockerSandboxEnvironment({
    client: api.createMemoryDockerClient(),
    workspace: { id: 'w' },
    ownerId: workerData.ownerId,
    leaseStore: api.createFileLeaseStore({ directory: workerData.directory }),
  })
  owner.acquire({ runId: workerData.ownerId }).then(session => {
    parentPort.on('message', how => {
      if (how === 'exit') process.exit(0)
      if (how === 'an exception') throw new Error(session.binding.workspaceId)
    })
    parentPort.postMessage('holds')
  })`

for (const how of ['terminate', 'exit', 'an exception']) {
  test(`a run that a worker held is handed back when the worker ends: ${how}`, { skip: !workers }, async () => {
    const leases = createFileLeaseStore({ directory })
    const ownerId = `worker-${how}`
    const workerData = { entry: fileURLToPath(new URL('../index.cjs', import.meta.url)), directory, ownerId }
    const worker = new Worker(HOLDS, { eval: true, workerData })
    const ended = new Promise(resolve => worker.on('exit', resolve).on('error', () => undefined))
    await new Promise(resolve => worker.once('message', resolve))
    assert.equal((await leases.list(ownerId))[0].holder.pid, process.pid)
    if (how === 'terminate') await worker.terminate()
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows, not of workers
    else worker.postMessage(how)
    await ended
    const deadline = performance.now() + 10_000
    for (;;) {
      const [{ holder, status }] = await leases.list(ownerId)
      if (holder === null) return assert.equal(status, 'running')
      assert.ok(performance.now() < deadline, 'it is held by nobody who could release it')
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  })
}
