// Docker clients as an application might write them, over one of this package.

const SPEC_FIELDS =
  'image user workingDir env cmd networkMode readonlyRootfs memoryBytes nanoCpus pidsLimit tmpfs labels init'.split(' ')
const pick = (object, keys) => Object.fromEntries(keys.map(key => [key, object[key]]))

/**
 * A class with private state, whose methods work only when they are called as methods. It knows what the interface of
 * version 0.2.1 had and nothing more: fields of a spec beyond it are not passed on, and answers have no field beyond it.
 */
export class PlainClient {
  #client
  calls = []
  /** Replaces a method where a test needs another one. */
  overrides = {}

  constructor(client, kind = client.kind) {
    this.#client = client
    this.kind = kind
  }
  async #run(method, args, standard) {
    this.calls.push([method, ...args])
    const override = this.overrides[method]
    return override ? override(...args) : standard()
  }
  createContainer(spec) {
    return this.#run('createContainer', [spec], () => this.#client.createContainer(pick(spec, SPEC_FIELDS)))
  }
  startContainer(id) {
    return this.#run('startContainer', [id], () => this.#client.startContainer(id))
  }
  inspectContainer(id) {
    return this.#run('inspectContainer', [id], async () => {
      const { Id, State, HostConfig } = await this.#client.inspectContainer(id)
      return {
        Id,
        State: pick(State, ['Running', 'Status', 'OOMKilled', 'ExitCode']),
        HostConfig: pick(HostConfig, ['NanoCpus', 'PidsLimit', 'Memory']),
      }
    })
  }
  removeContainer(id) {
    return this.#run('removeContainer', [id], () => this.#client.removeContainer(id))
  }
  killContainer(id, signal) {
    return this.#run('killContainer', [id, signal], () => this.#client.killContainer(id, signal))
  }
  listContainers(label) {
    return this.#run('listContainers', [label], async () =>
      (await this.#client.listContainers(label)).map(found => pick(found, ['Id', 'Labels'])),
    )
  }
  putArchive(id, path, tar) {
    return this.#run('putArchive', [id, path, tar], () => this.#client.putArchive(id, path, tar))
  }
  getArchive(id, path, most) {
    return this.#run('getArchive', [id, path, most], () => this.#client.getArchive(id, path, most))
  }
  exec(id, options) {
    return this.#run('exec', [id, options], () => this.#client.exec(id, options))
  }
  realpath(id, path) {
    return this.#run('realpath', [id, path], () => this.#client.realpath(id, path))
  }
  commitContainer(id, repo, tag, labels) {
    return this.#run('commitContainer', [id, repo, tag], () => this.#client.commitContainer(id, repo, tag, labels))
  }
  removeImage(id) {
    return this.#run('removeImage', [id], () => this.#client.removeImage(id))
  }
  createNetwork(name) {
    return this.#run('createNetwork', [name], () => this.#client.createNetwork(name))
  }
  removeNetwork(id) {
    return this.#run('removeNetwork', [id], () => this.#client.removeNetwork(id))
  }
}
