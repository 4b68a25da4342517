// The public contract, written by hand. index.d.cts is a copy of this file for CommonJS; a test keeps them equal.
import type { ZodType } from 'zod'

// ---------------------------------------------------------------------------------------------------------------------
// Platform types, without a dependency on the DOM's or Node's declarations
// ---------------------------------------------------------------------------------------------------------------------

/** What is needed of an abort signal. */
export interface AbortSignalLike {
  /** True once it fired. */
  readonly aborted: boolean
  /** Why it fired; becomes the `cause` of the `CANCELLED` error. */
  readonly reason?: any
  /** Called with `"abort"` and `{ once: true }` for each operation, undone by `removeEventListener` at its end. */
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  /** Counterpart of `addEventListener`. */
  removeEventListener(type: 'abort', listener: () => void): void
}

/** The platform's `AbortSignal` where the program's libraries declare one, else what is needed of it. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer Platform } }
  ? Platform
  : AbortSignalLike

/** `[Symbol.asyncDispose]()` where the program's libraries declare that symbol; at run time it is always there. */
export type AsyncDisposableLike = SymbolConstructor extends { readonly asyncDispose: infer Key extends symbol }
  ? { [Name in Key]: () => Promise<void> }
  : {}

/** Any JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }

// ---------------------------------------------------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------------------------------------------------

/**
 * Stable codes of `SandboxError`.
 *
 * - `DOCKER_UNAVAILABLE`: the engine's socket or port is absent, refuses, may not be opened, is not trusted (TLS) or does not
 *   trust us, or speaks no version that we do.
 * - `DOCKER_API`: the engine refused or broke off a request; the message is the engine's.
 * - `NOT_FOUND`: the engine or the workspace has no such thing.
 * - `PATH_INVALID`: a path is malformed, leaves the workspace, or goes through a symbolic link.
 * - `LIMIT`: a documented limit would be passed, or the disk of a file store is full.
 * - `CANCELLED`: the caller's signal (then `cause` is its reason) or the end of the session stopped the operation.
 * - `TIMEOUT`: a deadline of this package passed. A command's own time limit is no error but an `outcome`.
 * - `DENIED`: the policy of the environment refuses it.
 * - `LEASE_EXPIRED`: the run's lease ended; its resources are removed.
 * - `CONTAINER_LOST`: the run's container is gone and nothing can restore it.
 * - `SNAPSHOT_INVALID`: the run's snapshot is absent where one is needed, incomplete, altered, or stale.
 * - `IMAGE_MISSING`: the image is not on the engine, and may not or cannot be pulled.
 * - `CONFIG_INVALID`: an option or argument is wrong; the message names it, what it was and what it may be. Also what an
 *   option leads to: a store of the application's own that fails or answers wrongly, a directory or file of a file store
 *   that cannot be used.
 * - `RELEASED`: the session was released, or the environment closed, before; or the worker or process of a store of the
 *   application's own has ended.
 * - `UNSUPPORTED`: this engine, image or version cannot do it.
 * - `INTERNAL`: a fault of this package; please report it.
 */
export type SandboxErrorCode =
  | 'DOCKER_UNAVAILABLE'
  | 'DOCKER_API'
  | 'NOT_FOUND'
  | 'PATH_INVALID'
  | 'LIMIT'
  | 'CANCELLED'
  | 'TIMEOUT'
  | 'DENIED'
  | 'LEASE_EXPIRED'
  | 'CONTAINER_LOST'
  | 'SNAPSHOT_INVALID'
  | 'IMAGE_MISSING'
  | 'CONFIG_INVALID'
  | 'RELEASED'
  | 'UNSUPPORTED'
  | 'INTERNAL'

/** Every error of this package but a conflict over a run. Its `name` is `"SandboxError"`. */
export declare class SandboxError extends Error {
  /** @param code stable code @param message what was attempted, on what, and what to do @param options the cause */
  constructor(code: SandboxErrorCode, message: string, options?: { cause?: unknown })
  /** What kind of error it is; compare this and not the message. */
  readonly code: SandboxErrorCode
}

/**
 * Another holder has the run, or it was started with another environment id, workspace id or manifest. Nothing was
 * removed. Where `@zhivex-ai/core` can be imported from the application, the runtime's class of this name is thrown;
 * `instanceof` this one recognises both.
 */
export declare class ConflictError extends Error {
  /** @param message which run, and why */
  constructor(message: string)
}

// ---------------------------------------------------------------------------------------------------------------------
// Options of an environment
// ---------------------------------------------------------------------------------------------------------------------

/** A file written into a new workspace. */
export interface WorkspaceFile {
  /** Relative to `/workspace`; parents are made. */
  path: string
  /** Text becomes UTF-8; bytes are copied when the environment is created. At most `limits.maxFileBytes`. */
  contents: string | Uint8Array
  /** Permission bits, 0 to 0o777. Default 0o644. */
  mode?: number
}

/** Files of the host that are copied, never mounted, into a new workspace. */
export interface WorkspaceSource {
  /** A directory of the host. Symbolic links that leave it are refused by name. */
  root: string
  /** Paths or globs below `root`. What exceeds the file or workspace cap is refused by name. */
  include: string[]
}

/** What a new workspace holds. */
export interface WorkspaceOptions {
  /** Name of the workspace, not empty; part of the run's binding. */
  id: string
  /** Directories to make, relative to `/workspace`. Default none. */
  directories?: string[]
  /** Mount it without `noexec`, so that `./x` below it may be a command if the shell policy has it. Default false. */
  exec?: boolean
  /** Files to write. Default none. */
  files?: WorkspaceFile[]
  /** Host files to copy. Default none. */
  source?: WorkspaceSource
}

/** Which commands may be run: none, all, or those whose name is listed. */
export type ShellPolicy = 'deny' | 'allow' | { allow: string[] }

/**
 * Quotas of the allowlist proxy; all are whole numbers above 0 and part of the manifest's fingerprint. At most: 96 for
 * `maxConnections`, 32,768 for `maxTotalConnections`, 256 for `maxInFlightDns`, 1 MiB (and at least 64) for `maxHeadBytes`, a
 * day for times, 10⁹ for requests, 1 PiB for bytes.
 */
export interface ProxyQuotas {
  /** Connections of one run open at the same time. Default 32. */
  maxConnections: number
  /** Connections of all runs of this process open at the same time. Default 256. */
  maxTotalConnections: number
  /** Name look-ups of one run in flight. Default 16. */
  maxInFlightDns: number
  /** Requests (`CONNECT` or `http://`) that one acquired session may make. Default 1,000. */
  maxRequests: number
  /** Bytes of one request's head. Default 16 KiB. */
  maxHeadBytes: number
  /** Milliseconds in which a request's head must be complete. Default 10,000. */
  headTimeoutMs: number
  /** Bytes from the container through one connection. Default 64 MiB. */
  maxBytesUp: number
  /** Bytes to the container through one connection. Default 256 MiB. */
  maxBytesDown: number
  /** Milliseconds without a byte in either direction after which a connection is closed. Default 60,000. */
  idleTimeoutMs: number
  /** Milliseconds after which a connection is closed however busy it is. Default 600,000. */
  tunnelLifetimeMs: number
  /** Requests of one run over all its resumes; the manifest's `maxNetworkRequests`. Default 10,000. */
  maxNetworkRequests: number
  /** Bytes of one run in both directions over all its resumes; the manifest's `maxNetworkBytes`. Default 1 GiB. */
  maxNetworkBytes: number
}

/** What the network lets through. Default `{ mode: "deny" }`: no interface but loopback. */
export type NetworkOptions =
  | { mode: 'deny' }
  | {
      mode: 'allowlist'
      /** Public DNS names, exact or `*.example.com`; never a public suffix. At most 1,024; an empty list allows nothing. */
      allowedDomains: string[]
      /** Ports, 1 to 65535. Default `[443]`. */
      allowedPorts?: number[]
      /** Let names resolve to addresses that are not globally reachable. Default false. */
      allowPrivateNetworks?: boolean
      /** Deviations from `allowlistProxyQuotaDefaults`. */
      quotas?: Partial<ProxyQuotas>
    }

/** Bounds of a run. All are part of the manifest's fingerprint. */
export interface LimitOptions {
  /** Memory of the container in MiB, the workspace included, at least 6; there is no swap. Default 256. */
  memoryMb?: number
  /** CPU quota in CPUs, 0.01 to 1,024. Default 0.5. */
  cpus?: number
  /** Processes and threads, at least 8. Default 64. */
  pids?: number
  /** Longest run of a command in milliseconds, at most a day. Default 10,000. */
  commandTimeoutMs?: number
  /** Cap of standard output and of standard error, each, in bytes, at most 256 MiB. Default 1 MiB. */
  maxOutputBytes?: number
  /**
   * Largest file that tools and seeding read or write, in bytes, at most 256 MiB; not what a command writes.
   * Default 1 MiB.
   */
  maxFileBytes?: number
  /** Size of the workspace in bytes; with `tmp` it must stay below the memory limit. Default 64 MiB. */
  maxWorkspaceBytes?: number
  /**
   * Commands of one run at the same time, at most 1,024; others wait. Default one for every 8 of `pids`, at most 8. With the
   * resident transport no more than 61 run at once, whatever is given.
   */
  maxConcurrentProcesses?: number
}

/**
 * Options of `createDockerSandboxEnvironment`. They are read once and checked when the environment is created; a wrong
 * or unknown one is `CONFIG_INVALID`. What bounds or permits is in the manifest and so in its fingerprint; `transport`,
 * `pool`, `socketPath`, the stores, callbacks, and the values (not the names) of `env` are not.
 *
 * Stores, a client and callbacks of the application's own are let go with the environment, its sessions, their processes and
 * streams, and the calls of those that are under way. They may refer to any of these.
 */
export interface EnvironmentOptions {
  /** Id of the environment, part of the run's binding. Default `"docker-sandbox"`. */
  id?: string
  /** Version of the environment, part of the run's binding. Default none. */
  version?: string
  /**
   * Image reference or id. Default `"alpine:3.21"`. With a digest (`name@sha256:…`) it is that image or `IMAGE_MISSING`, whatever
   * a registry or an engine gives for the name.
   */
  image?: string
  /**
   * When the image is fetched: if the engine lacks it, never, or once for each environment. Default `"missing"`. Runs that
   * begin at the same time share one fetch. The registry's credentials are those of `docker login`: of Docker's `config.json`,
   * or of the credential helper that it names. `IMAGE_MISSING` says why it could not be fetched.
   */
  pull?: 'missing' | 'never' | 'always'
  /** OCI runtime by the engine's name, for example `"runsc"`. Default the engine's. */
  runtime?: string
  /** `"uid"` or `"uid:gid"`, numeric; `"N"` means `N:N`; 0 is refused in both places. Default `"65534:65534"`. */
  user?: string
  /** What a new workspace holds. */
  workspace: WorkspaceOptions
  /** A `/tmp` of this size in MiB. Without it there is none, and `TMPDIR` is inside the workspace. */
  tmp?: { sizeMb: number }
  /** Which commands may be run. Default `"deny"`. */
  shell?: ShellPolicy
  /**
   * What the network lets through. Default `{ mode: "deny" }`. With the exec transport an allowlist costs a network of the
   * engine's for each run, which must run on this host (`UNSUPPORTED` otherwise, `LIMIT` without a free address range).
   */
  network?: NetworkOptions
  /**
   * Looks names up for the allowlist, in place of the system: gives the IPv4 and IPv6 addresses of a name, lower-case and
   * without a dot at its end. It is asked twice for each connection, and every answer is checked as the system's would be:
   * it can allow nothing. One that fails, is no list of addresses or takes more than 10 s is a name without address. Not
   * part of the fingerprint.
   */
  resolveHost?: (host: string) => readonly string[] | Promise<readonly string[]>
  /** Bounds of a run. */
  limits?: LimitOptions
  /** Variables of every command. Nothing of `process.env` is inherited. Default none. */
  env?: Record<string, string>
  /** How long an untouched run is kept, in milliseconds, at most 365 days. Default 900,000 (15 minutes). */
  leaseMs?: number
  /**
   * What a snapshot is: a tar of the workspace, or that and an image of the container, for whoever looks into it later: a
   * run is always restored from the tar, since a workspace is no part of an image. Default `"tar"`.
   */
  snapshot?: 'tar' | 'docker-commit'
  /**
   * Save the workspace of a held run this often, in milliseconds, 1 to 86,400,000 (a day), where it may have changed.
   * Default never. Each one reads the whole workspace. What fails is told by `snapshot_failed`, and tried again.
   */
  checkpointMs?: number
  /**
   * `"enforced"` fails where the engine cannot enforce a control. Default with a real engine `"enforced"`, with the
   * in-memory one and a client of the application's own `"best-effort"`.
   */
  assurance?: 'enforced' | 'best-effort'
  /** Whether tools that are neither ours nor declared may run in the application's process. Default `"deny"`. */
  undeclaredTools?: 'deny' | 'allow'
  /** Names of the application's own tools that may run. They run in its process, in no jail. Default none. */
  declaredTools?: string[]
  /**
   * Whose leases `sweep` looks after; the same for processes that share a lease store, and another one for processes with
   * another lease store on the same engine: a sweep takes what no lease of its own store has for left over, once its maker
   * has ended. Default random for each environment.
   */
  ownerId?: string
  /** The engine: a client of this package, or any object of this shape. Default a client for `socketPath`. */
  client?: DockerClient
  /**
   * The engine's unix socket, where no `client` is given. Default: the engine of `DOCKER_HOST`, else of the current docker
   * context, else the first of the usual sockets that somebody listens on (Docker, rootless Docker, Docker Desktop, Colima,
   * OrbStack, Podman). It is looked for at the first call that needs an engine; where none is found, the error lists what was
   * tried.
   *
   * `DOCKER_HOST` may be `unix://` with a path, or `tcp://` with a host and a port. With `DOCKER_TLS_VERIFY` the latter is
   * spoken to with TLS, by `ca.pem` and, where the engine asks for them, `cert.pem` and `key.pem` of `DOCKER_CERT_PATH` (default
   * Docker's own folder), which are read once. Without it there is no TLS: whoever is in between, or reaches that port, has
   * the engine. A docker context at a TCP port needs its certificates. `UNSUPPORTED`: SSH, and TLS without the check of the
   * engine's certificate.
   */
  socketPath?: string
  /** Where leases are kept: a store of this package, or any object of this shape. Default in memory. */
  leaseStore?: LeaseStore
  /** Where snapshots are kept: a store of this package, or any object of this shape. Default in memory. */
  snapshotStore?: SnapshotStore
  /** How the host talks to the container. Default `"auto"`: the best that works. */
  transport?: 'auto' | 'resident' | 'exec'
  /**
   * Containers that are started and wait for a run, 0 to 256; default none. `acquire` takes one for a new run, in
   * milliseconds; one that was used never comes back. They are made in the background, the first after the first `acquire`,
   * and removed by `close()`; should this process die without it, they end themselves within 60 s. Needs the resident
   * transport: with `transport: "exec"` it is `UNSUPPORTED`, and where `"auto"` falls back the pool stays empty. Not part of
   * the fingerprint.
   */
  pool?: { size: number }
  /**
   * Told what happens, a little after it did. What it throws or rejects with is ignored. While it or anything else keeps
   * the thread busy, 1,024 events wait; the number of those left out is `dropped` in the next. It keeps no process alive.
   */
  onEvent?: (event: SandboxEvent) => unknown
}

// ---------------------------------------------------------------------------------------------------------------------
// The environment, as the agent runtime takes it
// ---------------------------------------------------------------------------------------------------------------------

/** What an environment permits and bounds: JSON only, frozen, the same object for the environment and its sessions. */
export interface SandboxManifest {
  /** Version of this shape. */
  readonly schemaVersion: 1
  /** The environment's id. */
  readonly id: string
  /** The environment's version, if it has one. */
  readonly version?: string
  /** Always a container. */
  readonly backend: 'container'
  /** Whether every control is enforced. */
  readonly assurance: 'best-effort' | 'enforced'
  /** Each run has its own. */
  readonly isolation: 'per-run'
  /** Where tools work. */
  readonly workspace: {
    id?: string
    root: string
    cwd?: string
    access: 'read-only' | 'read-write'
    followSymlinks?: boolean
    readablePaths?: string[]
    writablePaths?: string[]
  }
  /** What is permitted. */
  readonly permissions: {
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
  /** What is bounded. */
  readonly limits: {
    maxProcessRuntimeMs?: number
    maxProcessOutputBytes?: number
    maxConcurrentProcesses?: number
    maxMemoryMb?: number
    maxWorkspaceBytes?: number
    maxFileWriteBytes?: number
    maxNetworkRequests?: number
    maxNetworkBytes?: number
  }
  /** What has no field above but belongs to the fingerprint: image, user, CPU quota, process limit, proxy quotas … */
  readonly metadata: { [key: string]: JsonValue }
}

/** What a run is bound to; the runtime compares it field by field when the run is resumed. */
export interface SandboxBinding {
  /** `manifest.id`. */
  readonly environmentId: string
  /** `manifest.version`. */
  readonly environmentVersion?: string
  /** `"sha256:"` and the hex SHA-256 of the canonical manifest. */
  readonly fingerprint: string
  /** `manifest.workspace.id`. */
  readonly workspaceId?: string
}

/** Who a run belongs to. */
export interface RunScope {
  /** Not empty. */
  tenantId: string
  /** The user, if runs are apart by user. */
  userId?: string
  /** A further division. */
  namespace?: string
}

/** What `acquire` looks at; the runtime's request has more. */
export interface AcquireRequest {
  /** Not empty. Together with `scope` it says which run. */
  runId: string
  /** Ignored. */
  agentId?: string
  /** Who the run belongs to. */
  scope?: RunScope
  /** Ignored. */
  context?: unknown
  /** Ignored. */
  metadata?: Record<string, any>
  /** Cancels the acquiring; what it made is removed. */
  abortSignal?: Signal
}

/** What `sweep` did. */
export interface SweepReport {
  /** Ids of the runs whose lease had ended and whose resources were removed. */
  expiredRuns: string[]
  /** Names of removed containers that no lease held. */
  removedContainers: string[]
  /** Names of removed networks that no lease held. */
  removedNetworks: string[]
  /** Ids of removed images of `snapshot: "docker-commit"` that no lease had on record. */
  removedImages: string[]
  /** Names of removed volumes: of supervisors of other versions of this package, which no container had. */
  removedVolumes: string[]
  /** Names of temporary files that were removed from the directories of the stores: left by processes that died. */
  removedFiles: string[]
  /** What should have been removed and could not be, with the reason; the next sweep tries again. */
  failures: string[]
}

/** An execution environment: each run gets a hardened container of its own. */
export interface SandboxEnvironment extends AsyncDisposableLike {
  /** What it permits and bounds. */
  readonly manifest: SandboxManifest
  /**
   * Starts a run's container, or takes over the one that an earlier release kept.
   *
   * Rejects with `ConflictError` while another holder has the run or when something differs from its lease, and with
   * `SandboxError`: `LEASE_EXPIRED`, `CONTAINER_LOST`, `SNAPSHOT_INVALID`, `IMAGE_MISSING`, `DOCKER_UNAVAILABLE`,
   * `DOCKER_API`, `UNSUPPORTED`, `CONFIG_INVALID` (the request), `CANCELLED`, `RELEASED` (closed).
   */
  acquire(request: AcquireRequest): Promise<SandboxSession>
  /**
   * Ends this owner's expired leases and removes what it has on the engine that belongs to no run. Never another owner's or
   * another environment's, nor what a live process may be about to put on record: what a process of this host made that has
   * ended is removed at once; where that cannot be told, two minutes after it was made, by the engine's clock. What this
   * environment is making itself is not touched. Rejects where the lease store cannot list its leases; what else fails is
   * in the report.
   */
  sweep(options?: { signal?: Signal }): Promise<SweepReport>
  /**
   * Lets go of the engine and empties the pool. Operations under way end, and runs that are held are handed back: their
   * sessions can do nothing more, their containers stay, and whoever acquires them next goes on in those.
   */
  close(): Promise<void>
}

/** Statuses that a run may be released with: the first five keep the container, the last four remove it. */
export type RunStatus =
  | 'queued'
  | 'running'
  | 'suspended'
  | 'waiting_approval'
  | 'cancel_requested'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'timed_out'

/** What `authorize` looks at; the runtime's request has more. */
export interface AuthorizeRequest {
  /** The tool that is to run. */
  tool: { name: string }
  /** Before the batch runs, or just before this call. */
  phase: 'preflight' | 'execute'
  /** The call's input after its schema parsed it. */
  input: unknown
}

/** May the call run? The reason of a refusal is written for the model. */
export type AuthorizeDecision = { decision: 'allow' } | { decision: 'deny'; reason: string }

/** How a command ended: never guessed. `capabilities.outcomes` says which ones the transport can tell apart. */
export type ExecOutcome = 'exited' | 'signaled' | 'timed_out' | 'output_limit' | 'oom' | 'not_started'

/** What a session's transport can do and tell. */
export interface SandboxCapabilities {
  /** `exec`: an engine exec for every operation. `resident`: a program of ours in the container. */
  readonly transport: 'exec' | 'resident'
  /** The outcomes that it can tell apart. */
  readonly outcomes: ExecOutcome[]
  /** No gap between checking a path and using it. */
  readonly raceFreePaths: boolean
  /**
   * How connections to the proxy of the allowlist leave the container: over the stream to process 1, and it has no network, or
   * over a bridge network of its own, over which it may also try what listens on the host. Absent without an allowlist.
   */
  readonly network?: 'stream' | 'bridge'
  /** Why it is `exec` although `transport: "auto"` prefers `resident`; not there where it is what was asked for. */
  readonly fallbackReason?: string
}

/** Options of `readFile`. */
export interface ReadFileOptions {
  /** How the contents are given. Default `"bytes"`. */
  encoding?: 'bytes' | 'utf8' | 'base64'
  /** First byte. Default 0. */
  offset?: number
  /** Most bytes. Default, and at most, the environment's `maxFileBytes`. */
  limit?: number
  /** Cancels the reading. */
  signal?: Signal
}

/** A part of a file. */
export interface ReadFileResult<Contents = string | Uint8Array, Encoding = 'bytes' | 'utf8' | 'base64'> {
  /** Relative to the workspace. */
  path: string
  /** Bytes, text, or base64 of the bytes. */
  contents: Contents
  /** How `contents` is given. */
  encoding: Encoding
  /** Where `contents` starts, in bytes. */
  offset: number
  /** Size of the whole file in bytes. */
  size: number
  /** The file goes on after `contents`. */
  truncated: boolean
  /** Only there when the range cut a character in two and was trimmed to whole ones. */
  trimmed?: true
}

/** What was written. */
export interface WriteFileResult {
  /** Relative to the workspace. */
  path: string
  /** In bytes. */
  size: number
}

/** One entry of a listing. */
export interface ListEntry {
  /** Relative to the workspace; bytes that are no UTF-8 became U+FFFD. */
  path: string
  /** What it is; a symbolic link is never followed. */
  type: 'file' | 'directory' | 'symlink' | 'other'
  /** In bytes; 0 for what is no regular file. */
  size: number
  /** Permission bits. */
  mode: number
}

/** A directory's entries, sorted by path. */
export interface ListResult {
  /** The directory, relative to the workspace. */
  path: string
  /** What is in it. */
  entries: ListEntry[]
  /** There are more than `limit`. */
  truncated: boolean
}

/** A command. It is run as it is: nothing is split, expanded or given to a shell. */
export interface ExecRequest {
  /** A bare name, or an executable directly in `/bin` or `/usr/bin` (below a workspace with `exec: true`, there too). */
  command: string
  /** Default none. */
  args?: string[]
  /** Directory, relative to `/workspace`. Default the workspace. */
  cwd?: string
  /** Variables on top of the environment's. */
  env?: Record<string, string>
  /**
   * What it reads; text becomes UTF-8. Default nothing. An iterable is asked for the next piece when the command has taken
   * what came before, and is left (`return()`) when the command ends first or does not begin; an error that it throws kills
   * the command and is the caller's.
   */
  stdin?: string | Uint8Array | AsyncIterable<string | Uint8Array>
  /** Time limit in milliseconds; one above the environment's is clamped to it, except for `spawn`. */
  timeoutMs?: number
  /** Kills the command with all that it started. */
  signal?: Signal
}

/** What a command did. */
export interface ExecResult {
  /** `null` where it has none, or nobody knows it. */
  exitCode: number | null
  /** Name of the signal that ended it (`"SIGSEGV"`), where the transport can tell. */
  signal?: string
  /** How it ended. */
  outcome: ExecOutcome
  /** At most the environment's cap; bytes that are no UTF-8 became U+FFFD. */
  stdout: string
  /** As `stdout`. */
  stderr: string
  /** One of the caps was reached. */
  truncated: boolean
  /** The time limit passed. */
  timedOut: boolean
  /** From the request to the result, in milliseconds. */
  durationMs: number
}

/** A piece of a running command's output. */
export interface ExecChunk {
  /** Where it was written. */
  stream: 'stdout' | 'stderr'
  /** The bytes as they came. */
  data: Uint8Array
}

/** How a command ended whose output was streamed. `truncated` is always `false`: nothing caps such output. */
export type StreamResult = Omit<ExecResult, 'stdout' | 'stderr'>

/**
 * A command whose output is read while it runs; to be iterated once. `limits.maxOutputBytes` does not count: output that
 * is not read waits, about 512 KiB of it, and then holds the command back; one that has ended leaves its place to others. With the exec transport the command has not ended,
 * and its time limit goes on, before its output was read, but for the last 100 KiB or so. Leaving the loop early kills the command with all
 * that it started and waits until that is done.
 */
export interface ExecStream extends AsyncIterable<ExecChunk> {
  /**
   * How it ended; settles when it did, whether or not its output was read. It reads nothing itself: a command that is held
   * back ends at its time limit, when it is killed, or with the session. After an early end of the loop it is `signaled` with
   * `SIGKILL`. It rejects with `CANCELLED` after the signal, `RELEASED` after `release`, and with what an iterable that was
   * its `stdin` threw; nobody has to handle that.
   */
  readonly result: Promise<StreamResult>
}

/**
 * A process in the background of a run. It runs until it ends, is killed, or the session ends; the environment's time
 * limit is not its own. It takes one of the places of `limits.maxConcurrentProcesses` meanwhile.
 */
export interface SandboxProcess extends ExecStream {
  /**
   * Writes to its standard input; resolves when the process can take more. Bytes are copied at the call, and calls that are
   * not awaited keep their order. `RELEASED`: the process has ended, its input was ended before, or it was given as `stdin`. What
   * a running process does not read any more is dropped.
   */
  write(data: string | Uint8Array): Promise<void>
  /** Ends its standard input, behind what was written. */
  end(): Promise<void>
  /** Kills it with all that it started, and resolves when that is done; `result` is then `signaled` with `SIGKILL`. */
  kill(): Promise<void>
}

/** A file that is read piece by piece; to be iterated once. Leaving the loop early ends the reading. */
export interface FileStream extends AsyncIterable<Uint8Array> {
  /** Relative to `/workspace`. */
  readonly path: string
  /** Of the whole file when it was opened, in bytes. No more is read if it grows; if it shrinks, the pieces end earlier. */
  readonly size: number
  /** Permission bits. */
  readonly mode: number
}

/**
 * A run's container while this process holds it. The methods need no `this`. Every operation ends on `release` and is
 * refused after it (`RELEASED`); paths are relative to `/workspace`, or absolute inside it.
 */
export interface SandboxSession extends AsyncDisposableLike {
  /** The environment's manifest. */
  readonly manifest: SandboxManifest
  /** What the run is bound to. */
  readonly binding: SandboxBinding
  /** What its transport can do and tell. */
  readonly capabilities: SandboxCapabilities
  /** Whether a tool call may run. Never rejects: what it cannot understand is denied. */
  authorize(request: AuthorizeRequest): Promise<AuthorizeDecision>
  /** Runs the operation and hands on its result or error. `RELEASED` after `release`. */
  execute<Result>(request: unknown, operation: () => Result | Promise<Result>): Promise<Result>
  /**
   * Lets go of the run. Keeping statuses refresh snapshot and lease; terminal ones remove everything. Never rejects. The
   * first call counts. A status that is none of these is terminal.
   */
  release(request: { status: RunStatus; error?: { message: string } }): Promise<void>
  /** Reads a file or a part of it. `NOT_FOUND`, `PATH_INVALID`, `LIMIT`, `CONFIG_INVALID`, `CANCELLED`. */
  readFile(path: string, options: ReadFileOptions & { encoding: 'utf8' }): Promise<ReadFileResult<string, 'utf8'>>
  readFile(path: string, options: ReadFileOptions & { encoding: 'base64' }): Promise<ReadFileResult<string, 'base64'>>
  readFile(
    path: string,
    options?: Omit<ReadFileOptions, 'encoding'> & { encoding?: 'bytes' },
  ): Promise<ReadFileResult<Uint8Array, 'bytes'>>
  /**
   * Writes a file whole or not at all; parents are made. Bytes are copied before the call returns. `mode` is 0 to 0o777,
   * default 0o644. `PATH_INVALID`, `LIMIT`, `CONFIG_INVALID`, `CANCELLED`.
   */
  writeFile(
    path: string,
    contents: string | Uint8Array,
    options?: { mode?: number; signal?: Signal },
  ): Promise<WriteFileResult>
  /**
   * Lists a directory, the workspace by default, `depth` levels down (1 to 64, default 1), at most `limit` entries (1 to
   * 10,000, default 1,000).
   */
  list(path?: string, options?: { depth?: number; limit?: number; signal?: Signal }): Promise<ListResult>
  /** Runs a command to its end. A non-zero exit is a result. `DENIED`, `PATH_INVALID`, `CONFIG_INVALID`, `CANCELLED`. */
  exec(request: ExecRequest): Promise<ExecResult>
  /**
   * As `exec`, with the output while it comes. A stream that is neither read nor held by anybody is killed when it is
   * collected, at the latest with the session.
   */
  execStream(request: ExecRequest): Promise<ExecStream>
  /**
   * Starts a command that goes on in the background. There is no time limit but `timeoutMs`. Without `stdin` its input is
   * open for `write`. `LIMIT`, here and from `exec`: processes without a time limit have all places.
   */
  spawn(request: ExecRequest): Promise<SandboxProcess>
  /**
   * Saves the workspace now, as a keeping release does; commands that run meanwhile are in it as far as they came. Where
   * nothing can have changed since the last snapshot, that one is kept and no new tar is made. Never two at once: the second
   * waits for the first. `CONTAINER_LOST`, `LIMIT`, `SNAPSHOT_INVALID` (names or sizes that no archive may have),
   * `CANCELLED`, `RELEASED`, and what the store rejects with; the snapshot before stays then.
   */
  snapshot(options?: { signal?: Signal }): Promise<SnapshotMeta>
  /**
   * Reads a file of any size piece by piece; `limits.maxFileBytes` does not count. Errors as of `readFile`; `UNSUPPORTED`
   * with the exec transport.
   */
  readFileStream(path: string, options?: { offset?: number; limit?: number; signal?: Signal }): Promise<FileStream>
  /**
   * Writes a file piece by piece, whole or not at all: an error of the iterable, the signal or the session leaves the old
   * file as it was. The workspace's size bounds it, not `limits.maxFileBytes`. Errors as of `writeFile`; `UNSUPPORTED` with
   * the exec transport.
   */
  writeFileStream(
    path: string,
    contents: AsyncIterable<Uint8Array>,
    options?: { mode?: number; signal?: Signal },
  ): Promise<WriteFileResult>
}

/** What every event has. */
interface EventOf<Type extends string> {
  /** What happened. */
  readonly type: Type
  /** When, in milliseconds since 1970. */
  readonly at: number
  /** The same in a sentence, made of the fields. It may change; the fields do not. */
  readonly message: string
  /** How many events before this one were left out because too many waited for `onEvent`. Absent where none was. */
  readonly dropped?: number
}

/** What every event of a run has. */
interface RunEventOf<Type extends string> extends EventOf<Type> {
  /** The run's id within its scope. */
  readonly runId: string
}

/** The image was fetched. */
export interface ImagePulledEvent extends EventOf<'image_pulled'> {
  /** Its name, as the option has it. */
  readonly image: string
  /**
   * How much came from the registry, compressed as it came, in bytes. Absent where nothing came, since the engine had all of
   * it, and where the client does not tell.
   */
  readonly bytes?: number
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/** The image is being fetched. Told twice a second at most, and once at the end; not by clients that do not tell. */
export interface ImageProgressEvent extends EventOf<'image_progress'> {
  /** Its name, as the option has it. */
  readonly image: string
  /** How much came from the registry so far, in bytes. */
  readonly bytes: number
  /** Sizes of the layers that are known by now, in bytes: it grows while the engine learns of more. */
  readonly totalBytes: number
}

/**
 * The resident transport failed where `transport` is `"auto"`, and `docker exec` takes its place. For 60 seconds it is not
 * tried again: runs of that time have the reason in `acquired` alone.
 */
export interface TransportFallbackEvent extends RunEventOf<'transport_fallback'> {
  /** Why. */
  readonly reason: string
}

/** A container was started that waits for a run. */
export interface PooledEvent extends EventOf<'pooled'> {
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/** A container that would have waited for a run could not be started. The next `acquire` has it tried again. */
export interface PoolFailedEvent extends EventOf<'pool_failed'> {
  /** The code of the error. */
  readonly code: SandboxErrorCode
  /** Why. */
  readonly reason: string
}

/** A run was acquired. */
export interface AcquiredEvent extends RunEventOf<'acquired'> {
  /**
   * Where its container comes from: it is new, it waited in the pool, it waited since a release, its holder died or fell
   * silent, or it is new with the workspace of a snapshot.
   */
  readonly how: 'started' | 'pooled' | 'resumed' | 'taken_over' | 'restored'
  /** The transport that it has. */
  readonly transport: 'resident' | 'exec'
  /** Why `"auto"` could not have the resident transport for a new container. */
  readonly fallbackReason?: string
  /** How long `acquire` took, in whole milliseconds. */
  readonly durationMs: number
}

/** An operation of a session ended or was refused. No path, command, argument or content is told. */
export interface OperationEvent extends RunEventOf<'operation'> {
  /** Which, whether a tool or the application asked for it. */
  readonly operation: 'exec' | 'read_file' | 'write_file' | 'list'
  /** How a command ended; `"done"` for files; `"failed"` where the call is rejected, with its `code`. */
  readonly outcome: ExecOutcome | 'done' | 'failed'
  /** The code of the error, `"CONFLICT"` where another holder has the run. Only with `"failed"`. */
  readonly code?: SandboxErrorCode | 'CONFLICT'
  /** How long it took, in whole milliseconds. */
  readonly durationMs: number
  /** Bytes of standard input, or of what was to be written, whether or not they got there. */
  readonly bytesIn: number
  /** Bytes of both outputs together, of what was read, or of the paths of a listing; 0 with `"failed"`. */
  readonly bytesOut: number
}

/** The allowlist's proxy connected the run to a host. */
export interface NetworkAllowedEvent extends RunEventOf<'network_allowed'> {
  /** The host's name, lower-case. */
  readonly host: string
  /** The port. */
  readonly port: number
  /** The entry of `allowedDomains` that allows it. */
  readonly rule: string
}

/** The allowlist's proxy refused a request; no byte of it went on. */
export interface NetworkRefusedEvent extends RunEventOf<'network_refused'> {
  /** The host's name, where the request had one. */
  readonly host?: string
  /** The port, where the request had one. */
  readonly port?: number
  /** The HTTP status of the reply. */
  readonly status: number
  /** Why, in the words that the program got. */
  readonly reason: string
}

/** A connection that the allowlist's proxy had made has ended. */
export interface NetworkClosedEvent extends RunEventOf<'network_closed'> {
  /** The host's name. */
  readonly host: string
  /** The port. */
  readonly port: number
  /** The entry of `allowedDomains` that allowed it. */
  readonly rule: string
  /** Bytes that went to the host. */
  readonly bytesUp: number
  /** Bytes that came from the host. */
  readonly bytesDown: number
  /** Why it was ended before its time. Absent where program and host ended it. */
  readonly reason?: string
}

/** The lease could not be renewed. Told once, until it can be again. After 20 seconds others may take the run over. */
export interface HeartbeatFailedEvent extends RunEventOf<'heartbeat_failed'> {
  /** The code of the lease store's error. */
  readonly code: SandboxErrorCode | 'CONFLICT'
}

/** Another holder has the run, or its record is gone: this session can do nothing more. Told once for each session. */
export interface LeaseLostEvent extends RunEventOf<'lease_lost'> {}

/** The run's container has ended. Told once for each session, and by an `acquire` that finds it so. */
export interface ContainerLostEvent extends RunEventOf<'container_lost'> {
  /** What operations of the session fail with. */
  readonly code: 'CONTAINER_LOST'
  /** Why it ended, as far as that is known. */
  readonly reason: string
}

/** The workspace was saved: by a keeping release, `snapshot()`, or every `checkpointMs`. */
export interface SnapshotSavedEvent extends RunEventOf<'snapshot_saved'> {
  /** Size of the tar in bytes. */
  readonly bytes: number
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/**
 * The workspace could not be saved, or, with `snapshot: "docker-commit"`, no image be made. The run is kept; if its container is
 * lost, so is its work since the last snapshot.
 */
export interface SnapshotFailedEvent extends RunEventOf<'snapshot_failed'> {
  /** The code of the error. */
  readonly code: SandboxErrorCode | 'CONFLICT'
  /** How long it was tried, in whole milliseconds. */
  readonly durationMs: number
}

/** A session was released, and all was done that its status asks for. The session's last event. */
export interface ReleasedEvent extends RunEventOf<'released'> {
  /** The status that `release` was called with, at most 300 characters of it. */
  readonly status: string
  /** Container, snapshot and lease wait for the next `acquire`; otherwise they are removed. */
  readonly kept: boolean
  /** Size in bytes of the snapshot that was saved. Absent where none was. */
  readonly snapshotBytes?: number
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/**
 * A session was released, and not all was done. Takes the place of `released`. Neither need come where the lease was lost,
 * which `lease_lost` tells.
 */
export interface ReleaseFailedEvent extends RunEventOf<'release_failed'> {
  /** The status that `release` was called with, at most 300 characters of it. */
  readonly status: string
  /**
   * What was not done: the lease could not be read or written; the workspace could not be saved; not all that the run had
   * could be removed, and the next `acquire` or `sweep` tries again.
   */
  readonly undone: 'lease' | 'snapshot' | 'removal'
  /** The code of the error. */
  readonly code: SandboxErrorCode | 'CONFLICT'
  /** How long it was tried, in whole milliseconds. */
  readonly durationMs: number
}

/** Something that should be gone, or up to date, is not. A later `acquire` or `sweep` may succeed. */
export interface CleanupFailedEvent extends EventOf<'cleanup_failed'> {
  /** The run that had it. Absent for a container that no lease knows. */
  readonly runId?: string
  /** What it is. */
  readonly resource: 'container' | 'network' | 'image' | 'volume' | 'snapshot' | 'lease'
  /** Its id or name on the engine; the run's key for a snapshot or lease. */
  readonly id: string
  /** The code of the error. */
  readonly code: SandboxErrorCode | 'CONFLICT'
  /** The engine's words. Absent for a snapshot or lease, whose store may quote what it holds. */
  readonly reason?: string
}

/** A sweep ended; the counts are those of its report. */
export interface SweptEvent extends EventOf<'swept'> {
  /** Runs whose lease had ended and that were removed. */
  readonly expiredRuns: number
  /** Containers without a lease that were removed. */
  readonly removedContainers: number
  /** Networks without a lease that were removed. Absent where none was. */
  readonly removedNetworks?: number
  /** What should have been removed and could not be. */
  readonly failures: number
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/** The environment was closed. Told once. Sessions that are still open may tell of refused operations and releases. */
export interface ClosedEvent extends EventOf<'closed'> {
  /** How long that took, in whole milliseconds. */
  readonly durationMs: number
}

/**
 * Something that happened and is no result of a call. Versions to come will have more types and more values of fields:
 * a `switch` over them needs a `default`. Events of one run come in order. No event has secrets, paths, commands,
 * arguments or contents in it.
 */
export type SandboxEvent =
  | ImagePulledEvent
  | ImageProgressEvent
  | TransportFallbackEvent
  | PooledEvent
  | PoolFailedEvent
  | AcquiredEvent
  | OperationEvent
  | NetworkAllowedEvent
  | NetworkRefusedEvent
  | NetworkClosedEvent
  | HeartbeatFailedEvent
  | LeaseLostEvent
  | ContainerLostEvent
  | SnapshotSavedEvent
  | SnapshotFailedEvent
  | ReleasedEvent
  | ReleaseFailedEvent
  | CleanupFailedEvent
  | SweptEvent
  | ClosedEvent

// ---------------------------------------------------------------------------------------------------------------------
// Stores
// ---------------------------------------------------------------------------------------------------------------------

/** Who holds a run at the moment. */
export interface LeaseHolder {
  /** Random for each acquire. */
  id: string
  /** The machine, and the namespaces that `pid` and `startTime` are of; empty where they are not known. */
  hostId: string
  /** The machine's boot; empty where it is not known. */
  bootId: string
  /** The process. */
  pid: number
  /** When that process started, in clock ticks since the boot; 0 where it is not known. */
  startTime: number
  /** Last sign of life, in milliseconds since 1970. */
  heartbeatAt: number
}

/** What is known of a run between its invocations. */
export interface LeaseRecord {
  /** The run: a hash of scope and run id. */
  key: string
  /** The run id as given. */
  runId: string
  /** Environment that started it. */
  environmentId: string
  /** Workspace that it works in. */
  workspaceId: string
  /** Fingerprint of the manifest that it was started with. */
  fingerprint: string
  /** Whose `sweep` looks after it. */
  ownerId: string
  /** Its container's id; empty while a lost one is being restored. */
  containerId: string
  /** Its container's name, a hash of the run. */
  containerName: string
  /** Its network, if it has one. */
  networkId?: string
  /** Committed images that are not yet deleted, the last one last; by name while one is being made. */
  imageIds: string[]
  /** A secret of 256 bits that proves a holder to the container. */
  token: string
  /** Random for a new run, up to 2^30, and grows at every take-over; the version that `save` and `remove` compare. */
  fence: number
  /** Who holds it, or nobody. */
  holder: LeaseHolder | null
  /** When it ends, in milliseconds since 1970. */
  expiresAt: number
  /**
   * What the run has used of `maxNetworkRequests` and `maxNetworkBytes`, as of the last heartbeat or release. Absent where it
   * has no allowlist, or began just now.
   */
  networkUsed?: { requests: number; bytes: number }
  /** Status that it was last released with, or `"running"`. */
  status: string
  /** Whether the snapshot is the workspace as it is, or work was done since. */
  snapshotState: 'none' | 'current' | 'stale'
  /** The `createdAt` of the snapshot that `snapshotState` is about. */
  snapshotAt?: number
}

/**
 * Where leases are kept. An application may write its own, as a class or a plain object; its methods are called as
 * methods of the object that `leaseStore` was given.
 *
 * What it has to do: each change is atomic between all that use the store, and lasts once its promise resolves. Records
 * are plain objects of JSON values; a store gives back every field that it was given, and may add fields of its own,
 * which come back with the next `save` of a run that was acquired with them.
 *
 * What happens where it does not: a method that throws or rejects ends the operation with `CONFIG_INVALID`, or with the
 * code of a `SandboxError` that it threw, and its error is the `cause`. An answer that is not of this shape (each field is
 * checked: type, whole numbers from 0 to 2⁵³ − 1, the key or owner that was asked for) is `CONFIG_INVALID`. One that does
 * not come within 7 s is `TIMEOUT`. In a process or worker that is ending it is `RELEASED`. A store does not keep the
 * process alive, except while the application waits for a call that needs it; at most 256 calls are under way at a time.
 *
 * Keep a session until it is released. One that was not, and that nothing refers to any more, goes on holding its run while
 * something else refers to the store; where nothing does, each heartbeat is `RELEASED`, and after 20 s of silence another
 * may take the run over.
 */
export interface LeaseStore {
  /** The record, if there is one; `null` counts as none too. One that cannot be read is an error, never no record. */
  load(key: string): Promise<LeaseRecord | undefined>
  /**
   * Compare and set: `expectedFence` is the fence of the record that is replaced, `null` that there must be none.
   * `false`: lost the race. Nobody waits for longer than 7 s: see to it that a save which takes longer fails instead of being
   * done later, when the run may have a newer record of the same fence (a statement time-out does that in a database).
   */
  save(record: LeaseRecord, expectedFence: number | null): Promise<boolean>
  /** Removes the record if its fence is this one. `false`: it is another, or there is none. */
  remove(key: string, expectedFence: number): Promise<boolean>
  /** Every record of an owner, at most 100,000. */
  list(ownerId: string): Promise<LeaseRecord[]>
}

/** What is known of a snapshot. */
export interface SnapshotMeta {
  /** The run's id within its scope. */
  runId: string
  /** Fingerprint of the manifest at that time. */
  fingerprint: string
  /** When it was taken, in milliseconds since 1970. */
  createdAt: number
}

/**
 * Where snapshots are kept. Contents are a stream both ways. An application may write its own, as with `LeaseStore`: its
 * failures and wrong answers are told in the same way. Instead of a time for each call, it may go 30 s without any
 * progress: `load`, each piece of a tar, `remove`, and in `save` the time between two pieces or after the last.
 */
export interface SnapshotStore {
  /**
   * The snapshot, if there is one; `null` counts as none too. A torn one is an error, never an empty one: `load` rejects,
   * or the tar throws before its end. The tar is read once, one piece asked for at a time; a reader that stops early, or
   * never begins, calls its `return`, and a stream that nobody began to read is destroyed or cancelled. Pieces are of any
   * size, and `Uint8Array`s: anything else is `CONFIG_INVALID`. A piece is copied before the next one is asked for, so that
   * its memory may be used again then.
   */
  load(key: string): Promise<{ meta: SnapshotMeta; tar: AsyncIterable<Uint8Array> } | undefined>
  /**
   * Replaces the snapshot, all or nothing: where the tar throws, the snapshot before stays. Each piece is the store's to
   * keep. A save that resolves before it has read the tar to its end counts as failed.
   */
  save(key: string, meta: SnapshotMeta, tar: AsyncIterable<Uint8Array>): Promise<void>
  /** Removes the snapshot if there is one. */
  remove(key: string): Promise<void>
}

/** Options of the file stores. */
export interface FileStoreOptions {
  /**
   * A directory for the store alone, or for a lease store and a snapshot store together; absolute, or relative to the
   * working directory at the time of the call. Made with mode 0700 if it is not there. It must be on a file system of
   * this machine: locks of network file systems are not relied on.
   */
  directory: string
}

// ---------------------------------------------------------------------------------------------------------------------
// The Docker client
// ---------------------------------------------------------------------------------------------------------------------

/** What an archive call says of the path that was asked for. */
export interface DockerPathStat {
  /** Last component of the path. */
  name: string
  /** In bytes; 0 for what is no regular file. */
  size: number
  /** Permission bits. */
  mode: number
  /** Target of a symbolic link, else empty. */
  linkTarget: string
}

/** What a container is created from. All capabilities are dropped, new privileges refused, and swap is off. */
export interface DockerCreateSpec {
  /** Image reference or id. */
  image: string
  /** `uid:gid`, numeric. */
  user: string
  /** Absolute. */
  workingDir: string
  /** `NAME=value`. */
  env: string[]
  /** Command, or arguments of the image's entry point. */
  cmd: string[]
  /** `none`, `bridge`, or a network's name or id. */
  networkMode: string
  /** Mount the root file system read-only. */
  readonlyRootfs: boolean
  /** Memory limit in bytes. */
  memoryBytes: number
  /** CPU quota in 10⁻⁹ CPUs. */
  nanoCpus: number
  /** Most processes and threads. */
  pidsLimit: number
  /** Path in the container → tmpfs options. */
  tmpfs: Record<string, string>
  /** Labels of the container. */
  labels: Record<string, string>
  /** Run the engine's init as process 1. */
  init: boolean
}

/** A command in a container. */
export interface DockerExecOptions {
  /** Program and arguments. */
  cmd: string[]
  /** Who runs it; empty: the container's user. */
  user: string
  /** `NAME=value`. */
  env?: string[]
  /** Absolute. */
  workingDir: string
  /** Time limit in milliseconds, clamped to 1 … 2³¹ − 1; what is no finite number counts as 1. */
  timeoutMs: number
  /** Cap of each of the two streams in bytes. */
  maxOutputBytes: number
  /** Kills the command; the call rejects with `CANCELLED`. */
  signal?: Signal
  /** Do not kill the command's processes at the end. */
  skipTerminate?: boolean
  /** Text in the command line by which its processes are found when they are to be killed. */
  marker?: string
}

/** What a command did. */
export interface DockerExecResult {
  /** 137 after a time-out. */
  exitCode: number
  /** At most the cap. */
  stdout: Uint8Array
  /** At most the cap. */
  stderr: Uint8Array
  /** A cap was reached and the command stopped. */
  truncated: boolean
  /** The time limit passed. */
  timedOut: boolean
}

/** What is read of an inspection. */
export interface DockerContainerInspection {
  /** Full id. */
  Id: string
  /** State now. */
  State: {
    /** Process 1 runs. */
    Running: boolean
    /** `created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`. */
    Status: string
    /** The kernel killed something of it for memory. */
    OOMKilled: boolean
    /** Of process 1; 0 while it runs. */
    ExitCode: number
  }
  /** Limits as created. */
  HostConfig?: {
    /** CPU quota in 10⁻⁹ CPUs. */
    NanoCpus?: number
    /** Most processes and threads. */
    PidsLimit?: number
    /** Memory limit in bytes. */
    Memory?: number
  }
}

/** One container of a list. */
export interface DockerListedContainer {
  /** Full id. */
  Id: string
  /** Its labels. */
  Labels: Record<string, string>
  /** Its names, each with a slash before it. A client of this package tells them. */
  Names?: string[]
  /** When it was created, in seconds since 1970. A client of this package tells it. */
  Created?: number
}

/** What is read of an engine's `GET /info`. */
export interface DockerEngineInfo {
  /** Memory limits work. */
  MemoryLimit: boolean
  /** Swap can be limited. */
  SwapLimit: boolean
  /** Process limits work. */
  PidsLimit: boolean
  /** CPU quotas work. */
  CpuCfsQuota: boolean
  /** `name=seccomp,profile=default`, `name=rootless` … */
  SecurityOptions: string[]
  /** `"linux"`, or empty where the engine does not say. */
  OSType: string
}

/** What is read of an image: containers inherit it. */
export interface DockerImageInspection {
  /** `sha256:…` of its configuration. */
  Id: string
  /** CPU architecture in Go's spelling, such as `amd64`. */
  Architecture?: string
  /** What it is configured to. */
  Config?: {
    /** `NAME=value`. */
    Env?: string[] | null
    /** Its labels. */
    Labels?: Record<string, string> | null
    /** Paths that it declares as volumes. */
    Volumes?: Record<string, unknown> | null
  }
}

/**
 * The Engine API as far as a sandbox needs it: what the clients of this package are, and what an environment takes as its
 * `client`. An application may write one itself, as a class or an object, or wrap ours (`{ ...createNodeDockerClient(),
 * exec: traced }`). Of such a client:
 *
 * - Sessions have the `exec` transport, and their files are written by `putArchive`. Commands get no input: `stdin` and
 *   `spawn` are `UNSUPPORTED`. The output of `execStream` comes at its end.
 * - `kind: "memory"` is a double, of which `assurance: "enforced"` is refused. With `kind: "node"`, `assurance` is
 *   `"best-effort"` unless `"enforced"` is asked for. That needs `info`, `inspectImage` and inspections that are the
 *   engine's whole replies, and is checked at every acquire: `UNSUPPORTED` says what is missing.
 * - `createContainer` is passed more than `DockerCreateSpec` has: `name`, `entrypoint`, `hostname`, `ipcMode`, `runtime`,
 *   `sysctls`, `dns`, `ulimits`, `noHealthcheck` and `noLog`, with the meaning of the Engine API's fields. A client may leave out
 *   what it does not know, at the price of that protection. Containers that it cannot tell the name of, by `Names` of the
 *   list or `Name` of an inspection, are not removed by a `sweep`.
 * - Commands are killed by this package (they carry `skipTerminate`); the client only stops waiting, at `timeoutMs` and
 *   when `signal` fires.
 * - What it rejects with keeps a `code` that is one of `SandboxErrorCode`; else a `statusCode` of 404 is `NOT_FOUND`, and
 *   anything is `DOCKER_API`, with what it rejected with as `cause`. An answer of the wrong shape is `CONFIG_INVALID`. One
 *   that does not come is `TIMEOUT`: after 60 s, for archives 120 s, for `pullImage` 30 min, for `exec` 30 s above its time
 *   limit. At most 256 MiB pass as one archive.
 *
 * The rest is of the clients of this package. Every method rejects with `SandboxError`: `DOCKER_UNAVAILABLE`,
 * `NOT_FOUND` (404), `DOCKER_API` (the engine's message), `CONFIG_INVALID` (an argument), and what is named below.
 */
export interface DockerClient {
  /** A real engine, or the in-memory double. */
  readonly kind: 'node' | 'memory'
  /** Creates a container and does not start it. `NOT_FOUND` where the engine has not its image. */
  createContainer(spec: DockerCreateSpec): Promise<{ Id: string }>
  /** Starts a container. */
  startContainer(id: string): Promise<void>
  /** State and limits of a container. */
  inspectContainer(id: string): Promise<DockerContainerInspection>
  /** Kills and removes a container. */
  removeContainer(id: string): Promise<void>
  /** Sends a signal to process 1. Default `"SIGKILL"`. */
  killContainer(id: string, signal?: string): Promise<void>
  /** Containers, running or not, with this label (`name` or `name=value`). */
  listContainers(label: string): Promise<DockerListedContainer[]>
  /** Unpacks a tar into a directory of a container. */
  putArchive(id: string, containerPath: string, tar: Uint8Array): Promise<void>
  /** A path of a container as a tar; `LIMIT` above `maxOutputBytes`, default 256 MiB. */
  getArchive(
    id: string,
    containerPath: string,
    maxOutputBytes?: number,
  ): Promise<{ tar: Uint8Array; stat: DockerPathStat }>
  /** Runs a command to its end; `CANCELLED` by its signal. */
  exec(id: string, options: DockerExecOptions): Promise<DockerExecResult>
  /** Where a path of a container really is. `NOT_FOUND`, `PATH_INVALID`. */
  realpath(id: string, containerPath: string): Promise<string>
  /** Makes an image of a container; what lies on a tmpfs is not in it. */
  commitContainer(id: string, repo: string, tag: string, labels?: Record<string, string>): Promise<{ Id: string }>
  /** Removes an image. */
  removeImage(id: string): Promise<void>
  /** Makes an internal network. */
  createNetwork(name: string): Promise<{ Id: string; gateway?: string }>
  /** Removes a network. */
  removeNetwork(id: string): Promise<void>
  /** What the engine can enforce. A client without it cannot be had with `assurance: "enforced"`. */
  info?(): Promise<DockerEngineInfo>
  /**
   * What an image brings along. Without it an image's volumes are not masked nor its variables dropped, and
   * `assurance: "enforced"` cannot be had.
   */
  inspectImage?(image: string): Promise<DockerImageInspection>
  /** Fetches an image. Without it `pull: "always"` is `UNSUPPORTED`, and images must be there already. */
  pullImage?(image: string): Promise<void>
}

/** A client made by this package: it can stream archives too, and its methods need no `this`. */
export interface SandboxDockerClient extends DockerClient {
  info(): Promise<DockerEngineInfo>
  inspectImage(image: string): Promise<DockerImageInspection>
  pullImage(image: string): Promise<void>
  /**
   * Unpacks a tar, given as bytes (copied before the call returns) or piece by piece; memory does not grow with its
   * size. An iterable that throws breaks the upload off.
   */
  putArchive(
    id: string,
    containerPath: string,
    tar: Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<void>
  /** As `getArchive`, piece by piece and to be iterated once; leaving the loop ends the transfer. No default limit. */
  getArchiveStream(id: string, containerPath: string, maxOutputBytes?: number): AsyncIterableIterator<Uint8Array>
}

/** Options of `createNodeDockerClient`. */
export interface NodeDockerClientOptions {
  /** The engine's unix socket. Default: looked for, as for `socketPath` of an environment. */
  socketPath?: string
  /** `"v1.41"` or `"1.41"`. Default: negotiated with the engine, once. */
  apiVersion?: string
}

/** Makes the n-th call of a method of the in-memory client fail. */
export interface MemoryDockerFailure {
  /** Method of `DockerClient`, or `"info"`, `"inspectImage"`, `"pullImage"`, which environments call. */
  method: string
  /** Which of its calls, from 1. */
  nth: number
  /** Code of the error. Default `"DOCKER_API"`. */
  code?: SandboxErrorCode
  /** Message of the error. */
  message?: string
}

/** Options of `createMemoryDockerClient`. */
export interface MemoryDockerClientOptions {
  /** Calls that are to fail. Default none. */
  fail?: MemoryDockerFailure[]
  /**
   * References of the images that it has; others can be pulled. Default the usual small ones, `alpine:3.21` among them.
   */
  images?: string[]
}

// ---------------------------------------------------------------------------------------------------------------------
// Tools
// ---------------------------------------------------------------------------------------------------------------------

/** What a tool looks at in the context that the runtime gives it. */
export interface SandboxToolContext {
  /** A session of this package, exactly as acquired; anything else is `CONFIG_INVALID`. */
  executionEnvironment?: unknown
  /** Cancels the call. */
  abortSignal?: Signal
}

/** A tool definition as the agent runtime takes it. */
export interface SandboxTool<Name extends string, Input, Result> {
  /** Its name. */
  name: Name
  /** What it does, for the model. */
  description: string
  /** Schema of its input, made with the application's zod. */
  schema: ZodType<Input>
  /** What policies read. */
  metadata: {
    advancedRegistry: { permissions: string[]; audit: { riskLevel: 'low' | 'medium' | 'high' | 'critical' } }
  }
  /** The user is asked before each call. */
  requiresApproval: boolean
  /** How: the invocation stops and goes on when the user has answered. */
  approvalMode?: 'interrupt'
  /** Changes when an approval of an older definition must not count. */
  approvalVersion?: string
  /** Runs in the session of `context.executionEnvironment`; rejects as the session's methods do. */
  execute(input: Input, context: SandboxToolContext): Promise<Result>
}

/** Input of `sandbox_read_file`. */
export interface ReadFileInput {
  path: string
  encoding?: 'utf8' | 'base64' | undefined
  offset?: number | undefined
  limit?: number | undefined
}

/** Input of `sandbox_write_file`. */
export interface WriteFileInput {
  path: string
  contents: string
  encoding?: 'utf8' | 'base64' | undefined
  mode?: number | undefined
}

/** Input of `sandbox_list`. */
export interface ListInput {
  path?: string | undefined
  depth?: number | undefined
  limit?: number | undefined
}

/** Input of `sandbox_exec`. */
export interface ExecInput {
  command: string
  args?: string[] | undefined
  cwd?: string | undefined
  env?: Record<string, string> | undefined
  stdin?: string | undefined
  timeoutMs?: number | undefined
}

/** The tools, by name; a type and no interface, so that it is assignable to a record of tools. */
export type SandboxTools = {
  /** Reads a file or a part of it. Needs no approval. */
  sandbox_read_file: SandboxTool<'sandbox_read_file', ReadFileInput, ReadFileResult<string, 'utf8' | 'base64'>>
  /** Writes a file. Needs approval. */
  sandbox_write_file: SandboxTool<'sandbox_write_file', WriteFileInput, WriteFileResult>
  /** Lists a directory. Needs no approval. */
  sandbox_list: SandboxTool<'sandbox_list', ListInput, ListResult>
  /** Runs a command. Needs approval. */
  sandbox_exec: SandboxTool<'sandbox_exec', ExecInput, ExecResult>
}

/** Options of `createDockerSandboxTools`; there are none as yet. */
export interface SandboxToolsOptions {}

// ---------------------------------------------------------------------------------------------------------------------
// Defaults and functions
// ---------------------------------------------------------------------------------------------------------------------

/** The reference profile, one key for each control. */
export interface SecurityDefaults {
  /** `"alpine:3.21"`. */
  readonly image: string
  /** `"65534:65534"`: numeric, not root. */
  readonly user: string
  /** `"/workspace"`: a tmpfs of `maxWorkspaceBytes` that belongs to the user. */
  readonly workspaceRoot: string
  /** No interface but loopback. */
  readonly network: 'none'
  /** The root file system is mounted read-only. */
  readonly readOnlyRoot: true
  /** 256 MiB. */
  readonly memoryMb: number
  /** Swap is off. */
  readonly swap: false
  /** 0.5 CPUs. */
  readonly cpus: number
  /** 64 processes and threads. */
  readonly pids: number
  /** `["ALL"]`: no capabilities. */
  readonly capDrop: readonly string[]
  /** Programs cannot gain privileges. */
  readonly noNewPrivileges: true
  /** The engine's default seccomp profile stays on. */
  readonly seccomp: 'default'
  /** No command may be run. */
  readonly shell: 'deny'
  /** 10,000 ms. */
  readonly commandTimeoutMs: number
  /** 1 MiB for each stream. */
  readonly maxOutputBytes: number
  /** 1 MiB a file, for tools and seeding. */
  readonly maxFileBytes: number
  /** 64 MiB. */
  readonly maxWorkspaceBytes: number
  /** 8 commands at the same time. */
  readonly maxConcurrentProcesses: number
  /** 900,000 ms. */
  readonly leaseMs: number
  /** A tar of the workspace. */
  readonly snapshot: 'tar'
  /** Symbolic links are not followed. */
  readonly followSymlinks: false
  /** Tools that are not declared are denied. */
  readonly undeclaredTools: 'deny'
  /** Nothing of `process.env`. */
  readonly inheritedEnvironment: readonly string[]
  /** Without Docker nothing runs. */
  readonly localFallback: false
}

/** The reference profile, frozen. */
export declare const dockerSandboxSecurityDefaults: SecurityDefaults

/** Default quotas of the allowlist proxy, frozen. */
export declare const allowlistProxyQuotaDefaults: Readonly<ProxyQuotas>

/**
 * Makes an execution environment. Its options are checked now (`CONFIG_INVALID`, `UNSUPPORTED`); nothing is created in
 * Docker before the first `acquire`.
 */
export declare function createDockerSandboxEnvironment(options: EnvironmentOptions): SandboxEnvironment

/**
 * The four tools for an agent whose `executionEnvironment` is ours. Loads the application's zod, a peer dependency;
 * `UNSUPPORTED` where zod 4 is not installed.
 */
export declare function createDockerSandboxTools(options?: SandboxToolsOptions): SandboxTools

/** A client for the engine at a unix socket. Connects with the first call. */
export declare function createNodeDockerClient(options?: NodeDockerClientOptions): SandboxDockerClient

/** A deterministic double of an engine, for tests. With it `assurance: "enforced"` is refused. */
export declare function createMemoryDockerClient(options?: MemoryDockerClientOptions): SandboxDockerClient

/** Leases that end with this process. A record that `save` is given is checked field by field: `CONFIG_INVALID`. */
export declare function createMemoryLeaseStore(): LeaseStore

/**
 * Leases in files, for any number of processes of one machine. Every change is atomic between them, and on the disk
 * before its promise resolves. A process that dies leaves the old record or the new one, and no lock.
 *
 * Keys may be any text. A file holds one record of at most 1 MiB (`LIMIT`), is for its owner alone (mode 0600), and is
 * named after a hash of its key. Symbolic links in the directory are not followed. Records hold secrets: keep the directory
 * from others.
 *
 * The store rejects, and this function throws, with `CONFIG_INVALID` where the directory cannot be made, read or written,
 * was removed, or has a damaged or foreign file in a record's place; such a file is named and left alone. `list` also
 * rejects where another file is in the directory, except names that begin with a dot and `lost+found`. `UNSUPPORTED`: a
 * later version of this package wrote the record. `LIMIT`: the disk is full. `TIMEOUT`: a process that was stopped while
 * it wrote holds a lock for more than 10 s.
 */
export declare function createFileLeaseStore(options: FileStoreOptions): LeaseStore

/**
 * Snapshots that end with this process. `LIMIT` where one is longer than 256 MiB, or all together would be longer than
 * 1 GiB.
 */
export declare function createMemorySnapshotStore(): SnapshotStore

/**
 * Snapshots in files, for any number of processes of one machine, with memory that does not grow with their size. A save
 * is whole, and on the disk before its promise resolves, or leaves the snapshot before; what a process that died has left
 * half written is removed by a later save. A reader goes on reading what it began to, whatever is saved or removed.
 *
 * Keys, file modes, links and the errors of the directory are as with `createFileLeaseStore`. A snapshot that was cut or
 * altered, or that a later version of this package wrote, is `SNAPSHOT_INVALID`: cut, before its first byte is given;
 * altered, before its last.
 */
export declare function createFileSnapshotStore(options: FileStoreOptions): SnapshotStore
