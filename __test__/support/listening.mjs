// An environment that listens, in a process of its own, for the tests that end it or its workers.
import { Worker, isMainThread, parentPort } from 'node:worker_threads'
import { fileURLToPath } from 'node:url'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../../index.js'

const listen = onEvent =>
  createDockerSandboxEnvironment({
    workspace: { id: 'w' },
    client: createMemoryDockerClient(),
    transport: 'exec',
    onEvent,
  })

if (!isMainThread) {
  await fly()
} else if (process.argv[2] === 'ends') {
  await listen(({ type }) => process.stdout.write(`${type}\n`)).acquire({ runId: 'r' })
} else {
  for (let n = 0; n < Number(process.argv[3]); n++) await terminateOne(n)
}

/** Twenty runs that write without end, each event answered by another call. */
async function fly() {
  const sessions = []
  let heard = 0
  const environment = listen(() => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows, not of ports
    if (++heard === 100) parentPort.postMessage('flying')
    sessions[heard % sessions.length]?.writeFile('f', 'x').catch(() => undefined)
  })
  for (let n = 0; n < 20; n++) sessions.push(await environment.acquire({ runId: `r${n}` }))
  for (const session of sessions) {
    for (let n = 0; n < 50; n++) session.writeFile('f', 'x').catch(() => undefined)
  }
}

async function terminateOne(n) {
  const worker = new Worker(fileURLToPath(import.meta.url), { execArgv: [] })
  const said = await new Promise((resolve, reject) => {
    worker.on('message', resolve)
    worker.on('error', reject)
  })
  process.stdout.write(`${said}\n`)
  // Some in the middle, some a little later.
  await new Promise(resolve => setTimeout(resolve, n))
  await worker.terminate()
}
