// A native binding in JavaScript, enough of one for js/ to be tested alone: it keeps files in maps, records what it was
// given in `calls`, and answers as `overrides` says where a test needs a particular answer.
import { createHash } from 'node:crypto'

export const failure = (code, message = `${code} happened`) => ({ failure: { code, message } })

const CODES =
  'DOCKER_UNAVAILABLE DOCKER_API NOT_FOUND PATH_INVALID LIMIT CANCELLED TIMEOUT DENIED LEASE_EXPIRED CONTAINER_LOST ' +
  'SNAPSHOT_INVALID IMAGE_MISSING CONFIG_INVALID RELEASED UNSUPPORTED INTERNAL CONFLICT'

export function fakeBinding(overrides = {}) {
  const calls = []
  const containers = new Map()
  /** Answers with the override for this name if there is one. */
  const answer = (name, args, standard) => {
    calls.push([name, ...args])
    return overrides[name] ? overrides[name](...args) : standard(...args)
  }

  class CancelToken {
    cancelled = false
    listeners = []
    constructor() {
      calls.push(['CancelToken'])
    }
    cancel() {
      this.cancelled = true
      for (const listener of this.listeners) listener()
    }
  }

  class InputPipe {
    constructor() {
      calls.push(['InputPipe'])
    }
    write = async (...args) => answer('input.write', args, () => null)
    end = async () => answer('input.end', [], () => null)
  }

  /** A running command that says `batches` and then has ended. */
  const running = batches => ({
    next: async () => answer('process.next', [], () => batches.shift() ?? null),
    result: async () =>
      answer('process.result', [], () => ({ exitCode: 0, outcome: 'exited', timedOut: false, durationMs: 1.5 })),
    stop: async () => answer('process.stop', [], () => null),
  })

  const docker = kind => {
    const method =
      (name, standard) =>
      async (...args) =>
        answer(name, args, standard)
    return {
      kind: () => kind,
      createContainer: method('createContainer', json => {
        const id = `c${containers.size + 1}`
        containers.set(id, JSON.parse(json))
        return id
      }),
      startContainer: method('startContainer', () => null),
      inspectContainer: method('inspectContainer', id =>
        containers.has(id) ? JSON.stringify({ Id: id, State: { Running: true } }) : failure('NOT_FOUND'),
      ),
      removeContainer: method('removeContainer', id => (containers.delete(id) ? null : failure('NOT_FOUND'))),
      killContainer: method('killContainer', () => null),
      removeImage: method('removeImage', () => null),
      removeNetwork: method('removeNetwork', () => null),
      listContainers: method('listContainers', () =>
        JSON.stringify([...containers].map(([Id, spec]) => ({ Id, Labels: spec.labels ?? {} }))),
      ),
      putArchive: method('putArchive', () => null),
      putArchiveStream: (...args) =>
        answer('putArchiveStream', args, () => ({
          push: (...args) => answer('upload.push', args, () => true),
          room: method('upload.room', () => null),
          finish: method('upload.finish', () => null),
          abort: () => calls.push(['upload.abort']),
        })),
      getArchive: method('getArchive', () => ({ tar: new Uint8Array([1, 2]), statJson: '{"name":"a","size":2}' })),
      getArchiveStream: (...args) =>
        answer('getArchiveStream', args, () => {
          const pieces = [new Uint8Array([1]), new Uint8Array([2, 3])]
          return {
            next: method('download.next', () => pieces.shift() ?? null),
            cancel: () => calls.push(['download.cancel']),
          }
        }),
      exec: method('docker.exec', () => ({
        exitCode: 0,
        stdout: new Uint8Array([104, 105]),
        stderr: new Uint8Array(),
        truncated: false,
        timedOut: false,
      })),
      realpath: method('realpath', (_id, path) => path),
      commitContainer: method('commitContainer', () => 'sha256:image'),
      createNetwork: method('createNetwork', () => '{"Id":"n1","gateway":"172.18.0.1"}'),
      info: method('info', () => '{"MemoryLimit":true}'),
      inspectImage: method('inspectImage', image => JSON.stringify({ Id: `sha256:${image}` })),
      pullImage: method('pullImage', () => null),
    }
  }

  const session = workspace => {
    let released = false
    const method =
      (name, standard) =>
      (...args) =>
        answer(name, args, (...given) => (released ? failure('RELEASED') : standard(...given)))
    const write = (path, bytes) => {
      workspace.set(path, bytes)
      return { path, size: bytes.length }
    }
    return {
      capabilitiesJson: () => '{"transport":"exec","outcomes":["exited","timed_out"],"raceFreePaths":false}',
      authorize: method('authorize', json => {
        const { tool, input } = JSON.parse(json)
        if (!tool.startsWith('sandbox_')) return `{"decision":"deny","reason":"Tool ${tool} is not declared."}`
        if (input.command === 'rm') return '{"decision":"deny","reason":"Command rm is not allowed."}'
        return '{"decision":"allow"}'
      }),
      readFile: method('readFile', async (path, encoding, offset = 0, limit = Infinity) => {
        const bytes = workspace.get(path)
        if (!bytes) return failure('NOT_FOUND', `${path} does not exist.`)
        const part = bytes.subarray(offset, offset + limit)
        const content =
          encoding === 'bytes'
            ? { data: part }
            : { text: Buffer.from(part).toString(encoding === 'utf8' ? 'utf8' : 'base64') }
        const truncated = offset + part.length < bytes.length
        return { path, ...content, encoding, offset, size: bytes.length, truncated, trimmed: false }
      }),
      writeFile: method('writeFile', async (path, contents) => write(path, contents)),
      writeText: method('writeText', async (path, contents, encoding) => write(path, Buffer.from(contents, encoding))),
      list: method('list', async path => ({
        path,
        entriesJson: JSON.stringify(
          [...workspace.keys()]
            .toSorted()
            .map(path => ({ path, type: 'file', size: workspace.get(path).length, mode: 0o644 })),
        ),
        truncated: false,
      })),
      exec: method('exec', async (json, stdin) => {
        const { command, args = [] } = JSON.parse(json)
        const ended = { outcome: 'exited', stderr: '', truncated: false, timedOut: false, durationMs: 1.5 }
        if (command === 'echo') return { ...ended, exitCode: 0, stdout: `${args.join(' ')}\n` }
        if (command === 'cat') return { ...ended, exitCode: 0, stdout: Buffer.from(stdin ?? []).toString() }
        if (command === 'crash') return { ...ended, outcome: 'signaled', signal: 'SIGSEGV', stdout: '' }
        return { ...ended, outcome: 'not_started', stdout: '' }
      }),
      start: method('start', async () => {
        const piece = (stream, text) => ({ stream, data: Buffer.from(text) })
        return running([[piece('stdout', 'a'), piece('stderr', 'b')], [piece('stdout', 'c')]])
      }),
      readFileStream: method('readFileStream', async path => {
        const data = workspace.get(path)
        if (!data) return failure('NOT_FOUND', `${path} does not exist.`)
        return { path, size: data.length, mode: 0o644, contents: running([[{ stream: 'stdout', data }]]) }
      }),
      writeFileStream: (...args) =>
        answer('writeFileStream', args, path => {
          const pieces = []
          let close
          const closed = new Promise(resolve => {
            close = resolve
          })
          // As the native part: whoever cancels ends it.
          args[2]?.listeners.push(() => close(failure('CANCELLED')))
          return {
            path,
            contents: {
              push: piece => answer('file.push', [piece], () => (pieces.push(Buffer.from(piece)), true)),
              room: async () => answer('file.room', [], () => null),
              finish: async () => {
                workspace.set(path, Buffer.concat(pieces))
                close(null)
                return null
              },
              closed: () => closed,
              abort: () => close(failure('CANCELLED')),
            },
          }
        }),
      snapshot: method('snapshot', async () => '{"runId":"r","fingerprint":"sha256:0","createdAt":7}'),
      isReleased: () => released,
      release: async (...args) => {
        released = true
        return answer('release', args, () => null)
      },
    }
  }

  const environment = options => {
    const workspaces = new Map()
    const manifest = {
      schemaVersion: 1,
      id: options.id ?? 'docker-sandbox',
      ...(options.version === undefined ? {} : { version: options.version }),
      backend: 'container',
      assurance: 'enforced',
      isolation: 'per-run',
      workspace: { id: options.workspace.id, root: '/workspace', access: 'read-write', followSymlinks: false },
      permissions: { network: { mode: 'deny', allowPrivateNetworks: false, allowedPorts: [443], allowedDomains: [] } },
      limits: { maxMemoryMb: 256 },
      metadata: { cpus: 0.5, image: 'alpine:3.21' },
    }
    return {
      manifestJson: () => JSON.stringify(manifest),
      seal: text => {
        calls.push(['seal', text])
        return `sha256:${createHash('sha256').update(text).digest('hex')}`
      },
      acquire: async (...args) =>
        answer('acquire', args, json => {
          const { runId, scope } = JSON.parse(json)
          const key = JSON.stringify([scope ?? null, runId])
          if (!workspaces.has(key)) workspaces.set(key, new Map())
          return session(workspaces.get(key))
        }),
      sweep: async (...args) => answer('sweep', args, () => '{"expired":["r1"]}'),
      close: async (...args) => answer('close', args, () => null),
    }
  }

  const leases = () => {
    const records = new Map()
    return {
      load: async key => records.get(key) ?? null,
      save: async (json, fence) => {
        const record = JSON.parse(json)
        const current = records.has(record.key) ? JSON.parse(records.get(record.key)).fence : null
        if (current !== fence) return false
        records.set(record.key, json)
        return true
      },
      remove: async key => records.delete(key),
      list: async () => `[${[...records.values()].join(',')}]`,
    }
  }

  const snapshots = () => ({
    load: async (...args) => answer('snapshots.load', args, () => null),
    remove: async (...args) => answer('snapshots.remove', args, () => null),
  })

  const binding = {
    abi: () => 9,
    errorCodes: () => CODES.split(' '),
    CancelToken,
    InputPipe,
    engineVariables: () => ['DOCKER_HOST', 'HOME'],
    dockerConnect: (...args) => answer('dockerConnect', args, () => docker('node')),
    memoryDocker: (...args) => answer('memoryDocker', args, () => docker('memory')),
    memoryLeaseStore: () => leases(),
    memorySnapshotStore: () => snapshots(),
    fileLeaseStore: (...args) => answer('fileLeaseStore', args, () => leases()),
    fileSnapshotStore: (...args) => answer('fileSnapshotStore', args, () => snapshots()),
    jsDockerClient: (...args) => answer('jsDockerClient', args, () => docker('own')),
    jsLeaseStore: (...args) => answer('jsLeaseStore', args, () => leases()),
    jsSnapshotStore: (...args) => answer('jsSnapshotStore', args, () => snapshots()),
    securityDefaultsJson: () => '{"image":"alpine:3.21","network":{"mode":"deny"}}',
    prepareEnvironment: (...args) => answer('prepareEnvironment', args, json => environment(JSON.parse(json))),
  }
  return { binding, calls }
}
