// The same as types.test-d.mts, from CommonJS; types.test.mjs keeps the two alike.
import {
  ConflictError,
  SandboxError,
  allowlistProxyQuotaDefaults,
  createDockerSandboxEnvironment,
  createDockerSandboxTools,
  createFileLeaseStore,
  createMemoryDockerClient,
  createMemoryLeaseStore,
  createMemorySnapshotStore,
  createNodeDockerClient,
  dockerSandboxSecurityDefaults,
} from '../index.cjs'
import type {
  DockerClient,
  DockerCreateSpec,
  DockerExecResult,
  DockerPathStat,
  EnvironmentOptions,
  ExecOutcome,
  ExecStream,
  FileStream,
  LeaseRecord,
  LeaseStore,
  NodeDockerClientOptions,
  SandboxErrorCode,
  SandboxProcess,
  SandboxSession,
  SnapshotStore,
  StreamResult,
} from '../index.cjs'
import type { ZodType } from 'zod'

type Equal<Left, Right> = (<T>() => T extends Left ? 1 : 2) extends <T>() => T extends Right ? 1 : 2 ? true : false
const same = <Left, Right>(_equal: Equal<Left, Right>) => {}

// What the agent runtime declares: ours must be assignable to it.
type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
interface HostManifest {
  schemaVersion: 1
  id: string
  version?: string
  backend: 'host' | 'process' | 'container' | 'microvm' | 'remote' | 'custom'
  assurance: 'best-effort' | 'enforced'
  isolation: 'shared' | 'per-run' | 'per-tool-call'
  workspace?: {
    id?: string
    root: string
    cwd?: string
    access: 'read-only' | 'read-write'
    followSymlinks?: boolean
    readablePaths?: string[]
    writablePaths?: string[]
  }
  permissions?: {
    undeclaredTools?: 'allow' | 'deny'
    filesystem?: 'deny' | 'read-only' | 'read-write'
    network?: {
      mode: 'deny' | 'allowlist'
      allowedDomains?: string[]
      allowedPorts?: number[]
      allowPrivateNetworks?: boolean
    }
    process?: { shell: 'deny' | 'allowlist' | 'allow'; allowedCommands?: string[] }
    environment?: { inheritedVariables?: string[] }
  }
  limits?: { maxProcessRuntimeMs?: number; maxMemoryMb?: number; maxNetworkBytes?: number }
  metadata?: { [key: string]: Json }
}
interface HostBinding {
  environmentId: string
  environmentVersion?: string
  fingerprint: string
  workspaceId?: string
}
interface HostTool {
  name: string
  description?: string
  schema: ZodType
  metadata?: Record<string, unknown>
  requiresApproval?: boolean
  approvalMode?: 'policy' | 'interrupt'
  approvalVersion?: string
  execute(input: any, context: HostContext): unknown
}
interface HostContext {
  runId: string
  toolCall: { id: string; name: string; input: unknown }
  step: number
  executionEnvironment?: HostSession
  metadata: Record<string, Json>
}
interface HostRequest {
  manifest: HostManifest
  binding: HostBinding
  tool: HostTool
  toolCall: { id: string; name: string; input: unknown }
  input: unknown
  context: HostContext
  phase: 'preflight' | 'execute'
}
type HostDecision =
  | { decision: 'allow'; metadata?: Record<string, Json> }
  | { decision: 'deny'; reason: string; metadata?: Record<string, Json> }
interface HostSession {
  readonly manifest: HostManifest
  readonly binding: HostBinding
  authorize: (request: HostRequest) => HostDecision | Promise<HostDecision>
  execute: <T>(request: HostRequest, operation: () => T | Promise<T>) => T | Promise<T>
  release?: (request: {
    status: 'queued' | 'completed' | 'failed'
    error?: { message: string }
  }) => void | Promise<void>
}
interface HostEnvironment {
  readonly manifest: HostManifest
  acquire: (request: {
    runId: string
    agentId?: string
    scope?: { tenantId: string; userId?: string; namespace?: string }
    context?: unknown
    metadata?: Record<string, Json>
  }) => HostSession | Promise<HostSession>
}
const forRuntime: { executionEnvironment: HostEnvironment; tools: Record<string, HostTool> } = {
  executionEnvironment: createDockerSandboxEnvironment({ workspace: { id: 'repo' } }),
  tools: createDockerSandboxTools(),
}

// Options.
const everything: EnvironmentOptions = {
  id: 'e',
  version: '1',
  image: 'alpine:3.21',
  pull: 'missing',
  runtime: 'runsc',
  user: '1000:1000',
  workspace: {
    id: 'w',
    directories: ['src'],
    exec: true,
    files: [
      { path: 'a', contents: 'x', mode: 0o755 },
      { path: 'b', contents: new Uint8Array(1) },
    ],
    source: { root: '/src', include: ['**/*.ts'] },
  },
  tmp: { sizeMb: 16 },
  shell: { allow: ['ls'] },
  network: { mode: 'allowlist', allowedDomains: ['*.example.com'], allowedPorts: [443], quotas: { maxConnections: 4 } },
  limits: { memoryMb: 256, cpus: 0.5, pids: 64, maxConcurrentProcesses: 4 },
  env: { A: 'b' },
  leaseMs: 900_000,
  snapshot: 'docker-commit',
  checkpointMs: 60_000,
  assurance: 'best-effort',
  undeclaredTools: 'deny',
  declaredTools: ['x'],
  ownerId: 'o',
  client: createMemoryDockerClient({ fail: [{ method: 'exec', nth: 2, code: 'DOCKER_API' }] }),
  socketPath: '/run/docker.sock',
  leaseStore: createMemoryLeaseStore(),
  snapshotStore: createMemorySnapshotStore(),
  transport: 'auto',
  pool: { size: 1 },
  onEvent: event => event.message.toUpperCase(),
}

// Events: each type has its fields, and a listener may be asynchronous.
export const listens: EnvironmentOptions = {
  workspace: { id: 'w' },
  async onEvent(event) {
    event.at.toFixed()
    switch (event.type) {
      case 'acquired':
        same<'started' | 'pooled' | 'resumed' | 'taken_over' | 'restored', typeof event.how>(true)
        return event.runId.trim()
      case 'operation':
        return event.bytesIn + event.bytesOut + event.durationMs
      case 'image_progress':
        return event.totalBytes - event.bytes
      case 'image_pulled':
        same<number | undefined, typeof event.bytes>(true)
        return event.image
      case 'cleanup_failed':
        // @ts-expect-error a container that no lease knows is of no run
        return event.runId.trim()
      case 'released':
        same<number | undefined, typeof event.snapshotBytes>(true)
        return event.status
      default:
        // @ts-expect-error other types have other fields
        event.bytesIn.toFixed()
        return event.dropped ?? 0
    }
  },
}
// @ts-expect-error the workspace is required
createDockerSandboxEnvironment({})
// @ts-expect-error a misspelt option
createDockerSandboxEnvironment({ workspace: { id: 'w' }, imagee: 'x' })
// @ts-expect-error an allowlist needs domains
createDockerSandboxEnvironment({ workspace: { id: 'w' }, network: { mode: 'allowlist' } })
// @ts-expect-error with exactOptionalPropertyTypes an option is there or not
createDockerSandboxEnvironment({ workspace: { id: 'w' }, image: undefined })
// @ts-expect-error a user is a string
createDockerSandboxEnvironment({ workspace: { id: 'w' }, user: 1000 })
// @ts-expect-error the file stores need a directory
createFileLeaseStore({})

// The session.
export async function useSession(session: SandboxSession) {
  same<string, Awaited<ReturnType<typeof text>>['contents']>(true)
  same<Uint8Array, Awaited<ReturnType<typeof bytes>>['contents']>(true)
  async function text() {
    return await session.readFile('a', { encoding: 'utf8', offset: 0, limit: 1 })
  }
  async function bytes() {
    return await session.readFile('a', { limit: 1 })
  }
  await session.writeFile('a', 'x', { mode: 0o600 })
  const { exitCode, outcome } = await session.exec({ command: 'ls', args: ['-l'], stdin: new Uint8Array(1) })
  same<number | null, typeof exitCode>(true)
  same<ExecOutcome, typeof outcome>(true)
  const seven: number = await session.execute({}, () => 7)
  await session.release({ status: 'completed' })
  const decision = await session.authorize({ tool: { name: 't' }, phase: 'execute', input: 1 })
  if (decision.decision === 'deny') decision.reason.trim()
  for (const entry of (await session.list()).entries) entry.type satisfies 'file' | 'directory' | 'symlink' | 'other'
  // @ts-expect-error no such status
  await session.release({ status: 'paused' })
  // @ts-expect-error no such encoding
  await session.readFile('a', { encoding: 'latin1' })
  // @ts-expect-error the manifest is read-only
  session.manifest.id = 'x'
  return seven
}

// The Docker client, as the package that this one replaces declared it.
const options: NodeDockerClientOptions = { socketPath: '/run/docker.sock', apiVersion: 'v1.41' }
const client: DockerClient = createNodeDockerClient(options)
export async function useClient(spec: DockerCreateSpec) {
  const { Id } = await client.createContainer(spec)
  const result: DockerExecResult = await client.exec(Id, {
    cmd: ['ls'],
    user: '',
    workingDir: '/',
    timeoutMs: 1,
    maxOutputBytes: 1,
    signal: new AbortController().signal,
    skipTerminate: true,
    marker: 'm',
  })
  const { tar, stat }: { tar: Uint8Array; stat: DockerPathStat } = await client.getArchive(Id, '/a')
  await client.putArchive(Id, '/', tar)
  for await (const piece of createNodeDockerClient().getArchiveStream(Id, '/a')) piece.fill(0)
  await createNodeDockerClient().putArchive(Id, '/', createNodeDockerClient().getArchiveStream(Id, '/a'))
  // @ts-expect-error the interface of the seed takes bytes only
  await client.putArchive(Id, '/', [tar])
  return [result.exitCode, stat.linkTarget]
}

// Version 0.2.1 declared its client like this: what was written for either is good for the other.
interface EarlierSpec {
  image: string
  user: string
  workingDir: string
  env: string[]
  cmd: string[]
  networkMode: string
  readonlyRootfs: boolean
  memoryBytes: number
  nanoCpus: number
  pidsLimit: number
  tmpfs: Record<string, string>
  labels: Record<string, string>
  init: boolean
}
interface EarlierExec {
  cmd: string[]
  user: string
  env?: string[]
  workingDir: string
  timeoutMs: number
  maxOutputBytes: number
  signal?: AbortSignal
  skipTerminate?: boolean
  marker?: string
}
interface EarlierResult {
  exitCode: number
  stdout: Uint8Array
  stderr: Uint8Array
  truncated: boolean
  timedOut: boolean
}
interface EarlierInspection {
  Id: string
  State: { Running: boolean; Status: string; OOMKilled: boolean; ExitCode: number }
  HostConfig?: { NanoCpus?: number; PidsLimit?: number; Memory?: number }
}
interface EarlierStat {
  name: string
  size: number
  mode: number
  linkTarget: string
}
interface EarlierClient {
  readonly kind: 'node' | 'memory'
  createContainer(spec: EarlierSpec): Promise<{ Id: string }>
  startContainer(id: string): Promise<void>
  inspectContainer(id: string): Promise<EarlierInspection>
  removeContainer(id: string): Promise<void>
  killContainer(id: string, signal?: string): Promise<void>
  listContainers(label: string): Promise<{ Id: string; Labels: Record<string, string> }[]>
  putArchive(id: string, containerPath: string, tar: Uint8Array): Promise<void>
  getArchive(id: string, path: string, most?: number): Promise<{ tar: Uint8Array; stat: EarlierStat }>
  exec(id: string, options: EarlierExec): Promise<EarlierResult>
  realpath(id: string, containerPath: string): Promise<string>
  commitContainer(id: string, repo: string, tag: string, labels?: Record<string, string>): Promise<{ Id: string }>
  removeImage(id: string): Promise<void>
  createNetwork(name: string): Promise<{ Id: string; gateway?: string }>
  removeNetwork(id: string): Promise<void>
}
export const asEarlier: EarlierClient = createNodeDockerClient({ socketPath: '/s', apiVersion: 'v1.41' })
export const asNow = (written: EarlierClient): DockerClient => written
same<keyof EarlierClient, Exclude<keyof DockerClient, 'info' | 'inspectImage' | 'pullImage'>>(true)
same<EarlierSpec, DockerCreateSpec>(true)
same<EarlierResult, DockerExecResult>(true)
same<EarlierStat, DockerPathStat>(true)

// Stores.
export async function useStore(store: LeaseStore, snapshots: SnapshotStore, record: LeaseRecord) {
  const saved: boolean = await store.save(record, null)
  const found = await snapshots.load('k')
  if (found) for await (const piece of found.tar) piece.fill(0)
  // @ts-expect-error the expected fence is required
  await store.save(record)
  return saved
}

// Stores of the application's own, as a class and as a plain object.
class OwnLeases implements LeaseStore {
  #records = new Map<string, LeaseRecord & { mine?: number }>()
  async load(key: string) {
    return this.#records.get(key)
  }
  async save(record: LeaseRecord, expectedFence: number | null) {
    if ((this.#records.get(record.key)?.fence ?? null) !== expectedFence) return false
    this.#records.set(record.key, { ...record, mine: 1 })
    return true
  }
  async remove(key: string) {
    return this.#records.delete(key)
  }
  async list(ownerId: string) {
    return [...this.#records.values()].filter(record => record.ownerId === ownerId)
  }
}
const ownSnapshots: SnapshotStore = {
  load: async () => undefined,
  async save(_key, meta, tar) {
    meta.createdAt.toFixed()
    for await (const piece of tar) piece.fill(0)
  },
  remove: async () => undefined,
}
createDockerSandboxEnvironment({ workspace: { id: 'w' }, leaseStore: new OwnLeases(), snapshotStore: ownSnapshots })

// A Docker client of the application's own: a wrapper of ours, and one that has what an earlier version's interface had.
createDockerSandboxEnvironment({ workspace: { id: 'w' }, client: { ...createNodeDockerClient(), kind: 'node' } })
const { info: _info, inspectImage: _inspectImage, pullImage: _pullImage, ...earlier } = createNodeDockerClient()
const plain: DockerClient = earlier
createDockerSandboxEnvironment({ workspace: { id: 'w' }, client: plain })
const { exec: _exec, ...partly } = earlier
// @ts-expect-error a client has all the methods of the interface
createDockerSandboxEnvironment({ workspace: { id: 'w' }, client: partly })

const { list: _list, ...incomplete } = createFileLeaseStore({ directory: '/x' })
// @ts-expect-error a store has all its methods
createDockerSandboxEnvironment({ workspace: { id: 'w' }, leaseStore: incomplete })

// Tools.
const { sandbox_exec } = createDockerSandboxTools()
export const ran: Promise<{ exitCode: number | null }> = sandbox_exec.execute({ command: 'ls' }, {})
const parsed = sandbox_exec.schema.safeParse({})
if (parsed.success) parsed.data.command.trim()
// @ts-expect-error a command is required
sandbox_exec.execute({}, {})

// Errors and defaults.
const error: Error = new SandboxError('LIMIT', 'too much', { cause: 1 })
if (error instanceof SandboxError) error.code satisfies SandboxErrorCode
if (error instanceof ConflictError) error.message.trim()
// @ts-expect-error no such code
new SandboxError('CONFLICT', 'm')
// @ts-expect-error frozen
dockerSandboxSecurityDefaults.memoryMb = 1
// @ts-expect-error frozen
allowlistProxyQuotaDefaults.maxConnections = 1

export { everything, forRuntime }

// Streams.
export async function streams(session: SandboxSession, source: AsyncIterable<string | Uint8Array>): Promise<void> {
  const stream: ExecStream = await session.execStream({ command: 'cat', stdin: source })
  for await (const chunk of stream) {
    const where: 'stdout' | 'stderr' = chunk.stream
    const bytes: Uint8Array = chunk.data
    void [where, bytes]
  }
  const result: StreamResult = await stream.result
  const code: number | null = result.exitCode
  // @ts-expect-error: it was read by then
  void result.stdout
  const spawned: SandboxProcess = await session.spawn({ command: 'sh' })
  await spawned.write('x')
  await spawned.end()
  await spawned.kill()
  const file: FileStream = await session.readFileStream('a', { offset: 1, limit: 2 })
  for await (const piece of file) void piece.subarray(0, file.size)
  // @ts-expect-error: a string is written by writeFile
  await session.writeFileStream('a', 'text')
  const written: { path: string; size: number } = await session.writeFileStream('a', file, { mode: 0o600 })
  void [code, written]
}
