// What the tests against a real engine share. SANDBOX_TEST_SOCKET names its socket; without it they fail, since a test
// that is skipped holds nothing.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createNodeDockerClient } from '../../index.js'

export { eventually } from './wait.mjs'

export const socketPath = process.env.SANDBOX_TEST_SOCKET
if (!socketPath) {
  throw new Error(
    'SANDBOX_TEST_SOCKET is not set: it must name the socket of an engine with the test images (npm run engine).',
  )
}

/**
 * How the product is told of that engine: by its socket, or, with `SANDBOX_TEST_ENGINE=variables`, not at all, so that it looks at
 * `DOCKER_HOST` and its like. Then all of this can be run over TLS.
 */
export const where = process.env.SANDBOX_TEST_ENGINE === 'variables' ? {} : { socketPath }

/** The transport that sessions have unless a test asks for one: `SANDBOX_TEST_TRANSPORT`, or the default. */
export const transport = process.env.SANDBOX_TEST_TRANSPORT ?? 'auto'

/** With `SANDBOX_TEST_ASSURANCE=best-effort` the live tests run on engines that cannot enforce every limit, such as Podman. */
const assurance = process.env.SANDBOX_TEST_ASSURANCE

/** Process 1 and the mounts of a container of ours, as its inspection has them. */
export const PROCESS_1 = transport === 'exec' ? ['/bin/sh', '-c'] : ['/.sandbox/supervisor']
export const mountsOf = ({ Mounts }) => Mounts.map(({ Type, Destination, RW }) => [Type, Destination, RW])
export const MOUNTS = transport === 'exec' ? [] : [['volume', '/.sandbox', false]]

export const BUSYBOX = 'sandbox-test/busybox:latest'
export const DEBIAN = 'sandbox-test/debian:latest'
export const HOSTILE = 'sandbox-test/hostile:latest'
export const SCRATCH = 'sandbox-test/scratch:latest'
export const DISTROLESS = 'sandbox-test/distroless:latest'
export const CLIENTS = 'sandbox-test/clients:latest'
export const RACER = 'sandbox-test/racer:latest'

/** Options of an environment of this owner that may run everything, on BusyBox; the workspace is for whoever uses them. */
export const plainOptions = ownerId => ({
  ...where,
  ownerId,
  image: BUSYBOX,
  pull: 'never',
  shell: 'allow',
  transport,
  ...(assurance && { assurance }),
})

/** Everything that one file makes carries the file's own owner id, so that files can run beside each other. */
export function lab() {
  const ownerId = `test-${randomUUID()}`
  const client = createNodeDockerClient(where)

  /** An environment that may run everything, on BusyBox unless told otherwise. */
  const environment = (options = {}) =>
    createDockerSandboxEnvironment({
      ...plainOptions(ownerId),
      ...options,
      workspace: { id: 'w', ...options.workspace },
      limits: { cpus: 2, ...options.limits },
    })

  /** Runs `use` in a session of a run of its own, which is completed whatever happens. */
  const inSession = async (options, use) => {
    const owner = environment(options)
    const runId = randomUUID()
    const session = await owner.acquire({ runId })
    try {
      return await use(session, { environment: owner, runId })
    } finally {
      await session.release({ status: 'completed' })
      await owner.close()
    }
  }

  /** The same test on both images: BusyBox has its own shell and tools, Debian has GNU's. */
  const onBoth = (title, options, use) => {
    for (const image of [BUSYBOX, DEBIAN]) {
      test(`${title} [${image.slice(13, -7)}]`, () => inSession({ ...options, image }, use))
    }
  }

  /** The containers of this file, running or not. */
  const containers = () => client.listContainers(`zhivex.sandbox.owner=${ownerId}`)

  /** The last test of a file. What is left is removed all the same, for the files that follow. */
  const leavesNothing = () =>
    test('nothing is left on the engine', async () => {
      const left = await containers()
      for (const { Id } of left) await client.removeContainer(Id)
      const networks = (await engine('GET', '/networks')).filter(network => isOurs(network, ownerId))
      for (const { Id } of networks) await client.removeNetwork(Id)
      assert.deepEqual([left, networks], [[], []])
      assert.deepEqual(await named('/volumes', ({ Volumes }) => Volumes ?? []), [])
      assert.deepEqual(await named('/images/json', found => found), [])
    })

  return { client, ownerId, environment, inSession, onBoth, containers, leavesNothing }
}

/** Files may run beside each other: the networks of another one's runs are not this one's. */
function isOurs({ Name, Labels }, ownerId) {
  const owner = Labels?.['zhivex.sandbox.owner']
  return owner === undefined ? Name.includes('zhivex') : owner === ownerId
}

/** Volumes or images that carry our name. Supervisors' volumes are shared and stay for the next run. */
async function named(path, pick) {
  const found = pick(await engine('GET', path)).filter(({ Labels }) => !Labels?.['zhivex.supervisor'])
  const names = found.flatMap(({ Name, RepoTags, Labels }) => [Name ?? RepoTags, ...Object.keys(unforged(Labels))])
  return names.filter(name => String(name).includes('zhivex'))
}

// The hostile image has labels like ours.
const unforged = labels => (labels?.['zhivex.sandbox.owner'] === 'somebody' ? {} : (labels ?? {}))

/** One call of the Engine API, not through the product. Resolves to the reply's JSON. */
export function engine(method, path, body) {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = text ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } : {}
    const sent = request({ socketPath, method, path, headers }, response => {
      const chunks = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () => {
        const reply = Buffer.concat(chunks).toString()
        if (response.statusCode >= 300) reject(new Error(`${method} ${path} answered ${response.statusCode}: ${reply}`))
        else resolve(reply ? JSON.parse(reply) : undefined)
      })
    })
    sent.on('error', reject)
    sent.end(text)
  })
}

/** The report of a sweep that did nothing but this. */
export const swept = (what = {}) => ({
  expiredRuns: [],
  removedContainers: [],
  removedNetworks: [],
  removedImages: [],
  removedVolumes: [],
  removedFiles: [],
  failures: [],
  ...what,
})

/** Runs a shell script in a session; anything but exit code 0 fails the test with what the script said. */
export async function sh(session, script, options) {
  const result = await session.exec({ command: 'sh', args: ['-c', script], ...options })
  assert.deepEqual([result.outcome, result.exitCode], ['exited', 0], `${script}\n${JSON.stringify(result)}`)
  return result.stdout
}

/** The error that a promise rejects with; one that does not is a failed test. */
export function failureOf(promise) {
  const failure = rejectionOf(promise)
  // A rejection that comes before it is awaited must not end the test with half of it still running.
  failure.catch(() => undefined)
  return failure
}

async function rejectionOf(promise) {
  try {
    const value = await promise
    assert.fail(`it resolved to ${JSON.stringify(value)}`)
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    return error
  }
}

/** The `code` that a promise rejects with. */
export const codeOf = async promise => (await failureOf(promise)).code ?? 'no code'

const ENTRY = JSON.stringify(new URL('../../index.js', import.meta.url).href)

/**
 * Runs an ES module in a process of its own, under the runtime of this one. It finds all that the package exports as
 * `api`, and an `environment` of that owner with its `options`. `started` is told the process, and each line it prints. Resolves to how it
 * ended; one that does not end by itself is killed, which `signal` tells. `within` is a command that runs the process, with its
 * arguments.
 */
export function runProgram(ownerId, program, { started = () => undefined, timeoutMs = 30_000, within = [] } = {}) {
  const options = { ...plainOptions(ownerId), workspace: { id: 'w' }, limits: { cpus: 2 } }
  const source = `import * as api from ${ENTRY}
    const options = ${JSON.stringify(options)}
    const environment = api.createDockerSandboxEnvironment(options)
    ${program}`
  const args = process.versions.bun ? ['-e', source] : ['--input-type=module', '-e', source]
  const [command, ...rest] = [...within, process.execPath, ...args]
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'] })
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs)
  const said = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr']) {
    child[stream].setEncoding('utf8').on('data', text => {
      said[stream] += text
      if (stream === 'stdout') started(child, said.stdout)
    })
  }
  return new Promise(resolve => {
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      resolve({ code, signal, ...said })
    })
  })
}
