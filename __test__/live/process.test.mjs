// The process around the package: it ends by itself, and however it ends there is no crash.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { BUSYBOX, lab, runProgram, socketPath } from '../support/live.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()

/** What a process left is what `sweep` is for; a machine that cannot know that it is dead leaves it to its engine. */
async function cleanUp() {
  const owner = environment()
  await owner.sweep()
  await owner.close()
  for (const { Id } of await containers()) await client.removeContainer(Id)
}

const USE = `const session = await environment.acquire({ runId: 'r' + Date.now() + process.pid })
  const { stdout } = await session.exec({ command: 'echo', args: ['ran'] })
  process.stdout.write(stdout)`

for (const [how, rest, left] of [
  ['after release and close', `await session.release({ status: 'completed' }); await environment.close()`, 0],
  ['after release alone', `await session.release({ status: 'completed' })`, 0],
  ['after a keeping release', `await session.release({ status: 'suspended' })`, 1],
  ['without either', '', 1],
]) {
  test(`it ends by itself ${how}`, async () => {
    const { code, signal, stdout, stderr } = await runProgram(ownerId, `${USE}\n${rest}`)
    assert.deepEqual([code, signal, stdout, stderr], [0, null, 'ran\n', ''])
    assert.equal((await containers()).length, left)
    await cleanUp()
  })
}

test('it ends by itself when only a client was used, or nothing', async () => {
  const use = `await api.createNodeDockerClient({ socketPath: ${JSON.stringify(socketPath)} }).listContainers('x'); process.stdout.write('ran')`
  assert.deepEqual(await runProgram(ownerId, use), { code: 0, signal: null, stdout: 'ran', stderr: '' })
  assert.deepEqual(await runProgram(ownerId, ''), { code: 0, signal: null, stdout: '', stderr: '' })
})

test('it may exit in the middle of everything', async () => {
  const program = `${USE}
    for (let n = 0; n < 5; n++) session.exec({ command: 'sleep', args: ['20'] }).catch(() => undefined)
    environment.acquire({ runId: 'other' + Date.now() + process.pid }).catch(() => undefined)
    session.list().then(() => process.exit(7))`
  for (let round = 0; round < 3; round++) {
    const { code, signal, stderr } = await runProgram(ownerId, program)
    assert.deepEqual([code, signal, stderr], [7, null, ''])
    await cleanUp()
  }
})

test('an uncaught error ends it as usual', async () => {
  const { code, signal, stderr } = await runProgram(
    ownerId,
    `${USE}\n session.exec({ command: 'sleep', args: ['20'] }); throw new Error('uncaught here')`,
  )
  assert.deepEqual([code, signal], [1, null])
  assert.match(stderr, /uncaught here/)
  await cleanUp()
})

for (const signal of ['SIGINT', 'SIGTERM']) {
  test(`${signal} in the middle of a command ends it at once`, async () => {
    const program = `${USE}\n await session.exec({ command: 'sleep', args: ['20'] })`
    let sent
    const started = (child, stdout) => {
      if (stdout !== 'ran\n' || sent) return
      sent = performance.now()
      setTimeout(() => child.kill(signal), 200)
    }
    const ended = await runProgram(ownerId, program, { started })
    assert.equal(ended.signal, signal)
    assert.ok(performance.now() - sent < 5_000)
    await cleanUp()
  })
}

test('a handler of SIGINT can release the run', async () => {
  const program = `${USE}
    process.on('SIGINT', async () => { await session.release({ status: 'cancelled' }); process.exit(3) })
    const error = await session.exec({ command: 'sleep', args: ['20'] }).catch(error => error)
    process.stdout.write(error.code)
    await new Promise(resolve => setTimeout(resolve, 10_000))`
  let sent = false
  const started = (child, stdout) => {
    if (stdout === 'ran\n' && !sent) setTimeout(() => child.kill('SIGINT'), 200)
    sent = true
  }
  const { code, stdout } = await runProgram(ownerId, program, { started })
  assert.deepEqual([code, stdout], [3, 'ran\nRELEASED'])
  assert.deepEqual(await containers(), [])
})

const WORKER = JSON.stringify(fileURLToPath(new URL('../support/worker.mjs', import.meta.url)))
const WORKER_DATA = JSON.stringify({ socketPath, ownerId, image: BUSYBOX })

/** Runs workers one after the other; each does `what`. */
const workers = (what, count, act) => `
  import { Worker } from 'node:worker_threads'
  for (let n = 0; n < ${count}; n++) {
    const worker = new Worker(${WORKER}, { execArgv: [], workerData: { ...${WORKER_DATA}, what: ${JSON.stringify(what)}, run: process.pid + '-' + n } })
    // From now on: a worker that ends at once is told of together with its message.
    const ended = new Promise(resolve => worker.on('exit', resolve))
    const said = await new Promise((resolve, reject) => { worker.on('message', resolve); worker.on('error', reject) })
    process.stdout.write(said + '\\n')
    ${act}
  }
  await environment.close()`

test('two workers one after the other, and the main thread after them', async () => {
  const { code, signal, stdout, stderr } = await runProgram(
    ownerId,
    `${workers('whole', 2, 'await ended').replace('await environment.close()', '')}
    ${USE}; await session.release({ status: 'completed' })`,
  )
  assert.deepEqual([code, signal, stdout, stderr], [0, null, 'whole\nwhole\nran\n', ''])
  assert.deepEqual(await containers(), [])
})

test('a worker is terminated with calls in flight, ten times', async () => {
  const { code, signal, stdout, stderr } = await runProgram(
    ownerId,
    workers('flight', 10, 'await worker.terminate()'),
    { timeoutMs: 50_000 },
  )
  assert.deepEqual([code, signal, stdout, stderr], [0, null, 'flight\n'.repeat(10), ''])
  await cleanUp()
})

test('every way to import gives the same classes and functions', async () => {
  const program = `
    import { createRequire } from 'node:module'
    import { SandboxError, ConflictError, createDockerSandboxTools } from ${JSON.stringify(new URL('../../index.js', import.meta.url).href)}
    const required = createRequire(import.meta.url)(${JSON.stringify(fileURLToPath(new URL('../../index.cjs', import.meta.url)))})
    const names = Object.keys(required).sort()
    const same = names.every(name => required[name] === api[name])
    const error = await environment.acquire({}).catch(error => error)
    process.stdout.write([same, names.length > 10, error instanceof required.SandboxError, error instanceof SandboxError, required.ConflictError === ConflictError, typeof createDockerSandboxTools].join())`
  const { stdout, stderr } = await runProgram(ownerId, program)
  assert.deepEqual([stdout, stderr], ['true,true,true,true,true,function', ''])
})

leavesNothing()
