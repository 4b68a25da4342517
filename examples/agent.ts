// An agent without a language model: what a model would ask for is a fixed script, everything else is as in a real one.
//
//   bun examples/agent.ts
//
// SANDBOX_SOCKET: the engine's unix socket (default /var/run/docker.sock)
// SANDBOX_IMAGE:  the image (default alpine:3.21)
// SANDBOX_MEMORY: 1 for the in-memory double of an engine, which needs no Docker
import {
  createDockerSandboxEnvironment,
  createDockerSandboxTools,
  createMemoryDockerClient,
  createNodeDockerClient,
  SandboxError,
} from '../index.js'
import type { EnvironmentOptions, SandboxSession } from '../index.js'

const { SANDBOX_IMAGE, SANDBOX_MEMORY, SANDBOX_SOCKET } = process.env

const client =
  SANDBOX_MEMORY === '1'
    ? createMemoryDockerClient()
    : createNodeDockerClient(SANDBOX_SOCKET ? { socketPath: SANDBOX_SOCKET } : {})

const runId = `example-${Date.now()}`

const options: EnvironmentOptions = {
  client,
  ownerId: runId,
  workspace: { id: 'example', files: [{ path: 'README.md', contents: '# A workspace\n' }], directories: ['src'] },
  shell: { allow: ['cat', 'ls'] },
  ...(SANDBOX_IMAGE ? { image: SANDBOX_IMAGE } : {}),
}
const environment = createDockerSandboxEnvironment(options)
const tools = createDockerSandboxTools()

type ToolName = keyof typeof tools
type Call = { name: ToolName; input: Record<string, unknown> }

// What a model would answer, one call a step. The fourth is refused by the policy, as a model would be told.
const script: Call[] = [
  { name: 'sandbox_list', input: { path: '.' } },
  { name: 'sandbox_write_file', input: { path: 'src/hello.txt', contents: 'Hello from the sandbox\n' } },
  { name: 'sandbox_exec', input: { command: 'cat', args: ['src/hello.txt'] } },
  { name: 'sandbox_exec', input: { command: 'rm', args: ['-rf', '/'] } },
  { name: 'sandbox_read_file', input: { path: 'src/hello.txt' } },
]

/** Runs one step, prints what came of it, and how long it took. */
async function timed<Result>(what: string, run: () => Promise<Result>): Promise<Result> {
  const start = performance.now()
  try {
    const result = await run()
    const shown =
      typeof result === 'object' && result !== null && !('authorize' in result) ? JSON.stringify(result) : ''
    console.log(`${(performance.now() - start).toFixed(1).padStart(8)} ms  ${what}  ${shown}`)
    return result
  } catch (error) {
    console.log(`${(performance.now() - start).toFixed(1).padStart(8)} ms  ${what}  failed`)
    throw error
  }
}

const acquire = () => timed(`acquire ${runId}`, () => environment.acquire({ runId }))

/** One call: is it permitted, does the user agree, then run it. Gives the session back, which an approval renews. */
async function step(session: SandboxSession, { name, input }: Call): Promise<SandboxSession> {
  const tool = tools[name]
  const request = { tool, input: tool.schema.parse(input) }
  const decision = await session.authorize({ ...request, phase: 'preflight' })
  if (decision.decision === 'deny') {
    console.log(`${'denied'.padStart(8)}     ${name}  ${decision.reason}`)
    return session
  }
  let current = session
  if (tool.requiresApproval) {
    console.log(`${'ask'.padStart(8)}     ${name} ${JSON.stringify(input)}: may it? yes`)
    // While a person thinks, nobody holds the run: the container stays, and any process may go on with it.
    await timed('release waiting_approval', () => session.release({ status: 'waiting_approval' }))
    current = await acquire()
  }
  const again = await current.authorize({ ...request, phase: 'execute' })
  if (again.decision === 'deny') throw new Error(again.reason)
  const context = { executionEnvironment: current }
  const execute = tool.execute as (input: unknown, context: object) => Promise<unknown>
  await timed(name, () => current.execute(request, () => execute(request.input, context)))
  return current
}

/** The ids of all containers that carry our owner id. */
const leftovers = async () => (await client.listContainers(`zhivex.sandbox.owner=${runId}`)).map(({ Id }) => Id)

async function main() {
  let session = await acquire()
  let status: 'completed' | 'failed' = 'failed'
  try {
    for (const call of script) session = await step(session, call)
    status = 'completed'
  } finally {
    const ending = session
    await timed(`release ${status}`, () => ending.release({ status }))
    await environment.close()
  }
  const left = await leftovers()
  console.log(left.length === 0 ? 'Nothing is left of it.' : `Left behind: ${left.join(', ')}`)
  if (left.length > 0) process.exitCode = 1
}

await main().catch((error: unknown) => {
  if (!(error instanceof SandboxError)) throw error
  console.error(`${error.code}: ${error.message}`)
  process.exitCode = 1
})
