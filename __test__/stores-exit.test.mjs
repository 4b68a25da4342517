// Stores of the application's own and the end of what they live in: processes end by themselves, workers at any moment.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'

const SUPPORT = JSON.stringify(new URL('support/stores.mjs', import.meta.url).href)
const TIMEOUT_MS = 20_000

/** Runs a program that finds the stores as `Leases` and `Snapshots`. Resolves to how it ended; it is killed if it does not. */
function runProgram(program) {
  const source = `const { Leases, Snapshots, environment } = await import(${SUPPORT})
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
  'a store that stopped answering beats': `
    const session = await owner.acquire({ runId: 'r' })
    leaseStore.overrides.load = never
    await new Promise(resolve => setTimeout(resolve, 300))
    console.log("done")`,
  'process.exit in the middle of a call': `
    leaseStore.overrides.load = () => { console.log("done"); process.exit(0) }
    await owner.acquire({ runId: 'r' })`,
  'an exception of the application in the middle of a call': `
    process.on('uncaughtException', error => { console.log(error); process.exit(0) })
    leaseStore.overrides.load = () => { setImmediate(() => { throw 'done' }); return never() }
    await owner.acquire({ runId: 'r' })`,
}

for (const [what, program] of Object.entries(PROGRAMS)) {
  test(`a process ends by itself: ${what}`, async () => {
    assert.deepEqual(await runProgram(program), { code: 0, signal: null, stdout: 'done\n', stderr: '' })
  })
}

// Bun's workers can be ended in the middle of native calls from 1.4 on.
const workers = !process.versions.bun || Number(process.versions.bun.split('.')[1]) >= 4

for (const what of ['load', 'beat', 'save', 'next']) {
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
