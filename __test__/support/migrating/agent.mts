// A program that was written for version 0.2.1: an agent with its environment and tools, by the README of that version.
import { Agent } from '@zhivex-ai/sdk'
import type { Call, RunState } from '@zhivex-ai/sdk'
import { ConflictError } from '@zhivex-ai/core'
import {
  SandboxError,
  allowlistProxyQuotaDefaults,
  createDockerSandboxEnvironment,
  createDockerSandboxTools,
  createFileLeaseStore,
  createFileSnapshotStore,
  createMemoryDockerClient,
  createMemoryLeaseStore,
  createMemorySnapshotStore,
  createNodeDockerClient,
  dockerSandboxSecurityDefaults,
} from '@zhivex-ai/sandbox-docker'

const socket = process.env.SOCKET ? { socketPath: process.env.SOCKET } : {}
const ownerId = process.env.OWNER ?? 'migrating'
process.env.HOST_SECRET = 'not for the sandbox'

const workspace = { id: 'repo', files: [{ path: 'README.md', contents: '# workspace\n' }], directories: ['src'] }
const shell = { allow: ['echo', 'ls', 'cat', 'env', 'id'] }

const write = (path: string, contents: string): Call => ({ name: 'sandbox_write_file', input: { path, contents } })
const read = (path: string): Call => ({ name: 'sandbox_read_file', input: { path } })
const exec = (command: string, ...args: string[]): Call => ({ name: 'sandbox_exec', input: { command, args } })
const list: Call = { name: 'sandbox_list', input: {} }

/** An agent whose model asks for these batches, one a step. */
function agentOf(executionEnvironment: ReturnType<typeof createDockerSandboxEnvironment>, batches: Call[][]) {
  const model = ({ step }: { step: number }) => {
    const calls = batches[step]
    return calls ? { calls } : { text: 'done' }
  }
  return new Agent({ model, executionEnvironment, tools: createDockerSandboxTools(), maxSteps: 10 })
}

const results = (state: RunState) => state.messages.flatMap(message => message.results ?? [])
const say = (what: string, state: RunState) =>
  console.log(
    what,
    state.status,
    JSON.stringify(
      results(state).map(({ value, error }) =>
        error
          ? (error.code ?? 'refused')
          : (value.stdout ?? value.contents ?? value.entries?.map((entry: any) => entry.path) ?? value.size),
      ),
    ),
  )

/** What such a program does with an error. */
function kindOf(error: unknown): string {
  if (error instanceof ConflictError) return 'ConflictError'
  if (error instanceof SandboxError) return `SandboxError ${error.code}`
  return `not ours: ${error}`
}
const outcome = (call: Promise<unknown>) => call.then(() => 'done', kindOf)
const outcomeOf = (make: () => unknown) => {
  try {
    make()
    return 'done'
  } catch (error) {
    return kindOf(error)
  }
}

async function approvals() {
  const sandbox = createDockerSandboxEnvironment({ ...socket, ownerId, workspace, shell })
  const agent = agentOf(sandbox, [[list], [write('src/a.txt', 'a'), read('README.md')], [exec('cat', 'src/a.txt')]])
  const first = await agent.run({ runId: 'approvals' })
  say('first', first)
  const second = await agent.resume(first, { approve: 'all' })
  say('second', second)
  say('third', await agent.resume(second, { approve: 'all' }))

  const refused = agentOf(sandbox, [
    [exec('rm', '-rf', '/workspace')],
    [exec('../bin/ls')],
    [exec('-c')],
    [read('../etc/passwd')],
  ])
  const told = await refused.run({ runId: 'refused' })
  say('refused', told)
  const failing = agentOf(sandbox, [[read('none.txt')], [write('none/../../x', 'x')]])
  say('failing', await failing.run({ runId: 'failing' }))

  const looks = agentOf(sandbox, [[exec('id', '-u')], [exec('env')]])
  let state = await looks.run({ runId: 'looks' })
  while (state.status === 'waiting_approval') state = await looks.resume(state)
  const [uid, variables] = results(state)
  console.log('user', uid?.value.stdout.trim(), 'secret', variables?.value.stdout.includes('not for the sandbox'))
  await sandbox.sweep()
}

async function resumed() {
  const client = createNodeDockerClient(socket)
  const created: string[] = []
  const noting = {
    ...client,
    async createContainer(spec: Parameters<typeof client.createContainer>[0]) {
      const made = await client.createContainer(spec)
      created.push(made.Id)
      return made
    },
  }
  const stores = { leaseStore: createMemoryLeaseStore(), snapshotStore: createMemorySnapshotStore() }
  const options = { client: noting, ...stores, ownerId, workspace, shell }
  const batches = [[write('kept.txt', 'kept')], [read('kept.txt'), write('more.txt', 'more')], [read('kept.txt')]]

  const waiting = await agentOf(createDockerSandboxEnvironment(options), batches).run({ runId: 'resumed' })
  say('waiting', waiting)
  for (const [what, changes] of Object.entries({
    environment: { id: 'another' },
    workspace: { workspace: { ...workspace, id: 'another' } },
    CPU: { limits: { cpus: 0.75 } },
    PIDs: { limits: { pids: 32 } },
    user: { user: '1000:1000' },
  })) {
    const changed = createDockerSandboxEnvironment({ ...options, ...changes })
    console.log('changed', what, await outcome(Promise.resolve(changed.acquire({ runId: 'resumed' }))))
  }
  const approved = await agentOf(createDockerSandboxEnvironment(options), batches).resume(waiting)
  say('approved', approved)
  for (const id of created) await client.removeContainer(id).catch(() => undefined)
  say('restored', await agentOf(createDockerSandboxEnvironment(options), batches).resume(approved))
  const gone = await Promise.all(created.map(id => outcome(client.inspectContainer(id))))
  console.log('containers', created.length, [...new Set(gone)].join())

  const short = createDockerSandboxEnvironment({ ...options, leaseMs: 1_000 })
  const kept = await agentOf(short, [[write('x', 'x')]]).run({ runId: 'expired' })
  await new Promise(resolve => setTimeout(resolve, 1_500))
  console.log('expired', kept.status, await outcome(Promise.resolve(short.acquire({ runId: 'expired' }))))
  console.log('its container', await outcome(client.inspectContainer(created.at(-1) ?? '')))
}

async function snapshots(directory: string) {
  const options = {
    ...socket,
    ownerId,
    shell,
    workspace: { ...workspace, source: { root: directory, include: ['host.txt'] } },
    snapshot: 'docker-commit' as const,
    leaseStore: createFileLeaseStore({ directory }),
    snapshotStore: createFileSnapshotStore({ directory }),
  }
  const batches = [[read('host.txt'), write('a', 'a')], [list]]
  const waiting = await agentOf(createDockerSandboxEnvironment(options), batches).run({ runId: 'committed' })
  say('committed', await agentOf(createDockerSandboxEnvironment(options), batches).resume(waiting))
}

function options() {
  const { image, user, memoryMb, cpus, pids } = dockerSandboxSecurityDefaults
  console.log('defaults', image, user, memoryMb, cpus, pids)
  console.log(
    'quotas',
    Object.values(allowlistProxyQuotaDefaults).every(quota => quota > 0),
  )
  const plain = createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  const { assurance, permissions } = plain.manifest
  console.log('plain', assurance, permissions.network?.mode, permissions.process?.shell, permissions.undeclaredTools)
  const network = { mode: 'allowlist' as const, allowedDomains: ['example.com'], allowedPorts: [443] }
  const open = createDockerSandboxEnvironment({
    workspace: { id: 'w' },
    network,
    undeclaredTools: 'allow',
    shell: 'allow',
  })
  console.log('open', JSON.stringify(open.manifest.permissions.network), open.manifest.permissions.process?.shell)
  console.log(
    'root',
    outcomeOf(() => createDockerSandboxEnvironment({ workspace: { id: 'w' }, user: '0:0' })),
  )
  const client = createMemoryDockerClient()
  console.log('double', createDockerSandboxEnvironment({ workspace: { id: 'w' }, client }).manifest.assurance)
  console.log(
    'enforced',
    outcomeOf(() => createDockerSandboxEnvironment({ workspace: { id: 'w' }, client, assurance: 'enforced' })),
  )
}

options()
await approvals()
await resumed()
await snapshots(process.env.DIRECTORY ?? '.')
