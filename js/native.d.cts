// What js/ needs of the native addon. index.cjs passes the generated binding where this is expected, so a native
// signature that changes fails the type check there.

export interface Failure {
  failure: { code: string; message: string; cause?: number | undefined }
}

export interface CancelToken {
  cancel(): void
}

export interface ArchiveUpload {
  push(chunk: Uint8Array): Failure | boolean
  room(): Promise<Failure | null>
  finish(): Promise<Failure | null>
  closed(): Promise<Failure | null>
  abort(): void
}

export interface ArchiveDownload {
  next(): Promise<Failure | Uint8Array | null>
  cancel(): void
}

export interface NativeExecResult {
  exitCode: number
  stdout: Uint8Array
  stderr: Uint8Array
  truncated: boolean
  timedOut: boolean
}

export interface DockerHandle {
  kind(): string
  createContainer(specJson: string): Promise<Failure | string>
  startContainer(id: string): Promise<Failure | null>
  inspectContainer(id: string): Promise<Failure | string>
  removeContainer(id: string): Promise<Failure | null>
  killContainer(id: string, signal: string): Promise<Failure | null>
  removeImage(id: string): Promise<Failure | null>
  removeNetwork(id: string): Promise<Failure | null>
  listContainers(label: string): Promise<Failure | string>
  putArchive(id: string, path: string, tar: Uint8Array): Promise<Failure | null>
  putArchiveStream(id: string, path: string): Failure | ArchiveUpload
  getArchive(
    id: string,
    path: string,
    maxBytes?: number | undefined,
  ): Promise<Failure | { tar: Uint8Array; statJson: string }>
  getArchiveStream(id: string, path: string, maxBytes?: number | undefined): Failure | ArchiveDownload
  exec(id: string, optionsJson: string, token?: CancelToken | undefined): Promise<Failure | NativeExecResult>
  realpath(id: string, path: string): Promise<Failure | string>
  commitContainer(id: string, repo: string, tag: string, labelsJson?: string | undefined): Promise<Failure | string>
  createNetwork(name: string): Promise<Failure | string>
  info(): Promise<Failure | string>
  inspectImage(image: string): Promise<Failure | string>
  pullImage(image: string): Promise<Failure | null>
}

export interface ResolverHandle {}

export interface LeaseStoreHandle {
  load(key: string): Promise<Failure | string | null>
  save(recordJson: string, expectedFence: number | null): Promise<Failure | boolean>
  remove(key: string, fence: number): Promise<Failure | boolean>
  list(ownerId: string): Promise<Failure | string>
}

export interface SnapshotStoreHandle {
  load(key: string): Promise<Failure | { metaJson: string; tar: ArchiveDownload } | null>
  save(key: string, metaJson: string): Failure | ArchiveUpload
  remove(key: string): Promise<Failure | null>
}

export interface OwnCall {
  method(): string
  argumentsJson(): string
  stream(): number
  tar(): ArchiveDownload | null
  answer(json: string): boolean
  answerPiece(piece: Uint8Array | null): boolean
  answerParts(json: string, parts: Uint8Array[]): boolean
  refuse(code: string, message: string, cause: number): boolean
}

export interface NativeFileRange {
  path: string
  data?: Uint8Array
  text?: string
  encoding: string
  offset: number
  size: number
  truncated: boolean
  trimmed: boolean
}

export interface NativeListing {
  path: string
  /** `{ path, type, size, mode }[]` */
  entriesJson: string
  truncated: boolean
}

export interface NativeEnding {
  exitCode?: number | undefined
  signal?: string | undefined
  outcome: string
  timedOut: boolean
  durationMs: number
}

export interface NativeCommandResult extends NativeEnding {
  stdout: string
  stderr: string
  truncated: boolean
}

export interface InputPipe {
  write(chunk: Uint8Array): Promise<Failure | null>
  end(): Promise<Failure | null>
}

export interface ProcessHandle {
  next(): Promise<Failure | { stream: string; data: Uint8Array }[] | null>
  result(): Promise<Failure | NativeEnding>
  stop(): Promise<Failure | null>
}

export interface SessionHandle {
  capabilitiesJson(): string
  authorize(requestJson: string): string
  readFile(
    path: string,
    encoding: string,
    offset?: number | undefined,
    limit?: number | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | NativeFileRange>
  writeFile(
    path: string,
    contents: Uint8Array,
    mode?: number | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | { path: string; size: number }>
  writeText(
    path: string,
    contents: string,
    encoding: string,
    mode?: number | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | { path: string; size: number }>
  list(
    path: string,
    depth?: number | undefined,
    limit?: number | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | NativeListing>
  exec(
    requestJson: string,
    stdin?: Uint8Array | undefined,
    input?: InputPipe | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | NativeCommandResult>
  start(
    requestJson: string,
    background: boolean,
    stdin?: Uint8Array | undefined,
    input?: InputPipe | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | ProcessHandle>
  readFileStream(
    path: string,
    offset?: number | undefined,
    limit?: number | undefined,
    token?: CancelToken | undefined,
  ): Promise<Failure | { path: string; size: number; mode: number; contents: ProcessHandle }>
  writeFileStream(
    path: string,
    mode?: number | undefined,
    token?: CancelToken | undefined,
  ): Failure | { path: string; contents: ArchiveUpload }
  snapshot(token?: CancelToken | undefined): Promise<Failure | string>
  isReleased(): boolean
  release(status: string): Promise<unknown>
}

export interface EnvironmentHandle {
  manifestJson(): string
  seal(canonicalManifest: string): string
  acquire(requestJson: string, token?: CancelToken | undefined): Promise<Failure | SessionHandle>
  sweep(token?: CancelToken | undefined): Promise<Failure | string>
  closeWithWorker(): void
  close(): Promise<Failure | null>
}

export interface NativeBinding {
  abi(): number
  errorCodes(): string[]
  CancelToken: new () => CancelToken
  InputPipe: new () => InputPipe
  engineVariables(): string[]
  dockerConnect(optionsJson: string): Failure | DockerHandle
  memoryDocker(optionsJson: string): Failure | DockerHandle
  memoryLeaseStore(): LeaseStoreHandle
  memorySnapshotStore(): SnapshotStoreHandle
  fileLeaseStore(directory: string): Failure | LeaseStoreHandle
  fileSnapshotStore(directory: string): Failure | SnapshotStoreHandle
  jsDockerClient(dispatch: (call: OwnCall) => void, double: boolean, optionalMethods: string[]): DockerHandle
  jsLeaseStore(dispatch: (call: OwnCall) => void): LeaseStoreHandle
  jsResolver(dispatch: (call: OwnCall) => void): ResolverHandle
  jsSnapshotStore(dispatch: (call: OwnCall) => void): SnapshotStoreHandle
  securityDefaultsJson(): string
  prepareEnvironment(
    optionsJson: string,
    blobs: Uint8Array[],
    docker: DockerHandle | undefined,
    surroundingsJson: string,
    leases?: LeaseStoreHandle | undefined,
    snapshots?: SnapshotStoreHandle | undefined,
    listener?: ((eventJson: string) => void) | undefined,
    resolver?: ResolverHandle | undefined,
  ): Failure | EnvironmentHandle
}
