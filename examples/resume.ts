// A run that outlives its process: one process stops where a person must approve, and exits; another goes on, in the same
// workspace. What they share is a directory, with the leases, the snapshots and the run's own state.
//
//   bun examples/resume.ts            both, one after the other, with a yes
//   bun examples/resume.ts begin      the first process
//   bun examples/resume.ts approve    the next one; or deny
//
// SANDBOX_STATE:  the directory (default: one of your system's temporary directory)
// SANDBOX_SOCKET, SANDBOX_IMAGE, SANDBOX_MEMORY: as for examples/agent.ts. The in-memory double ends with its process, so
// with it the workspace comes back from its snapshot, as after an engine's restart.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createDockerSandboxEnvironment,
  createDockerSandboxTools,
  createFileLeaseStore,
  createFileSnapshotStore,
  createMemoryDockerClient,
  createNodeDockerClient,
  SandboxError,
} from '../index.js'
import type { RunStatus, SandboxSession } from '../index.js'

const { SANDBOX_IMAGE, SANDBOX_MEMORY, SANDBOX_SOCKET, SANDBOX_STATE } = process.env
const directory = SANDBOX_STATE ?? join(tmpdir(), 'sandbox-resume-example')
const stateFile = join(directory, 'run.json')

/** All that a process needs to go on with a run; a real agent would keep its messages here. */
type State = { runId: string; step: number }

const client =
  SANDBOX_MEMORY === '1'
    ? createMemoryDockerClient()
    : createNodeDockerClient(SANDBOX_SOCKET ? { socketPath: SANDBOX_SOCKET } : {})

// Made anew in each process, with the same options: another environment may not go on with the run.
const environment = createDockerSandboxEnvironment({
  client,
  ownerId: 'sandbox-resume-example',
  workspace: { id: 'example', files: [{ path: 'notes.txt', contents: 'one\n' }] },
  shell: { allow: ['cat'] },
  leaseStore: createFileLeaseStore({ directory: join(directory, 'leases') }),
  snapshotStore: createFileSnapshotStore({ directory: join(directory, 'snapshots') }),
  ...(SANDBOX_IMAGE ? { image: SANDBOX_IMAGE } : {}),
})
const tools = createDockerSandboxTools()

// What a model would answer, one call a step.
const script: { name: keyof typeof tools; input: Record<string, unknown> }[] = [
  { name: 'sandbox_read_file', input: { path: 'notes.txt' } },
  { name: 'sandbox_write_file', input: { path: 'notes.txt', contents: 'one\ntwo\n' } },
  { name: 'sandbox_read_file', input: { path: 'notes.txt' } },
]

/** Goes on until the script ends, or a call needs an approval that nobody has given yet. */
async function work(session: SandboxSession, state: State, answer?: 'approve' | 'deny'): Promise<boolean> {
  let given = answer
  for (; state.step < script.length; state.step++) {
    const call = script[state.step]!
    const tool = tools[call.name]
    const request = { tool, input: tool.schema.parse(call.input) }
    const decision = await session.authorize({ ...request, phase: 'preflight' })
    if (decision.decision === 'deny') throw new Error(decision.reason)
    const asks = tool.requiresApproval === true
    if (asks && !given) return false
    const denied = asks && given === 'deny'
    const execute = tool.execute as (input: unknown, context: object) => Promise<unknown>
    const result = denied
      ? 'refused by the user'
      : await session.execute(request, () => execute(request.input, { executionEnvironment: session }))
    say(`${call.name} ${JSON.stringify(call.input)}: ${JSON.stringify(result)}`)
    // An answer is for one call.
    if (asks) given = undefined
  }
  return true
}

/** One invocation: acquire the run, work, and let go of it with what has become of it. */
async function invoke(state: State, answer?: 'approve' | 'deny'): Promise<void> {
  const session = await environment.acquire({ runId: state.runId })
  let status: RunStatus = 'failed'
  try {
    status = (await work(session, state, answer)) ? 'completed' : 'waiting_approval'
  } finally {
    // The state first: whoever reads it finds the run to be free, or waits for it.
    if (status === 'waiting_approval') writeFileSync(stateFile, JSON.stringify(state))
    else rmSync(stateFile, { force: true })
    await session.release({ status })
    await environment.close()
    say(`released as ${status}`)
  }
}

const say = (text: string) => console.log(`[${process.pid}] ${text}`)

async function main(word: string | undefined): Promise<void> {
  if (word === 'begin') {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    return await invoke({ runId: `example-${Date.now()}`, step: 0 })
  }
  if (word === 'approve' || word === 'deny') return await invoke(JSON.parse(readFileSync(stateFile, 'utf8')), word)
  if (word !== undefined) throw new Error(`There is no ${word}; use begin, approve or deny.`)
  for (const part of ['begin', 'approve']) {
    const { status } = spawnSync(process.execPath, [process.argv[1]!, part], { stdio: 'inherit' })
    if (status !== 0) throw new Error(`The process for "${part}" ended with ${status}.`)
  }
}

await main(process.argv[2]).catch((error: unknown) => {
  console.error(error instanceof SandboxError ? `${error.code}: ${error.message}` : error)
  process.exitCode = 1
})
