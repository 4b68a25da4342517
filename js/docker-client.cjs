// @ts-check
'use strict'

const { settle, unwrap } = require('./errors.cjs')
const { invalid, quote } = require('./describe.cjs')
const { withSignal } = require('./abort.cjs')
const { copyBytes, isBytes } = require('./bytes.cjs')
const { nonEmptyString, optionalNumber, read, string, strings } = require('./arguments.cjs')
const { encodeStrictly } = require('./encode.cjs')
const { download, isStream, upload } = require('./archive-stream.cjs')

/** @typedef {import('./native.cjs').DockerHandle} DockerHandle */

/** @param {unknown} value */
const id = value => nonEmptyString(value, 'The id')
/** @param {unknown} value */
const containerPath = value => nonEmptyString(value, 'The container path')

/**
 * The public `DockerClient` over a native one. Its methods need no `this`.
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {DockerHandle} handle
 * @param {import('./options.cjs').Registry} registry
 */
function createClient(binding, handle, registry) {
  const client = {
    kind: unwrap(() => handle.kind()),
    ...containers(handle),
    ...archives(handle),
    ...imagesAndNetworks(handle),
    exec: executor(binding, handle),
    /**
     * @param {unknown} container
     * @param {unknown} path
     */
    async realpath(container, path) {
      const name = id(container)
      const where = containerPath(path)
      return await settle(handle, () => handle.realpath(name, where))
    },
  }
  registry.clients.set(client, handle)
  return client
}

/** @param {DockerHandle} handle */
function containers(handle) {
  return {
    /** @param {unknown} spec */
    async createContainer(spec) {
      const json = encodeStrictly(spec, 'The container spec')
      return { Id: await settle(handle, () => handle.createContainer(json)) }
    },
    /** @param {unknown} container */
    async startContainer(container) {
      const name = id(container)
      await settle(handle, () => handle.startContainer(name))
    },
    /** @param {unknown} container */
    async inspectContainer(container) {
      const name = id(container)
      return JSON.parse(await settle(handle, () => handle.inspectContainer(name)))
    },
    /** @param {unknown} container */
    async removeContainer(container) {
      const name = id(container)
      await settle(handle, () => handle.removeContainer(name))
    },
    /**
     * @param {unknown} container
     * @param {unknown} [signal]
     */
    async killContainer(container, signal = 'SIGKILL') {
      const name = id(container)
      const signalName = nonEmptyString(signal, 'The signal')
      await settle(handle, () => handle.killContainer(name, signalName))
    },
    /** @param {unknown} label */
    async listContainers(label) {
      const filter = string(label, 'The label')
      return JSON.parse(await settle(handle, () => handle.listContainers(filter)))
    },
  }
}

/** @param {DockerHandle} handle */
function archives(handle) {
  return {
    /**
     * @param {unknown} container
     * @param {unknown} path
     * @param {unknown} tar
     */
    async putArchive(container, path, tar) {
      const name = id(container)
      const where = containerPath(path)
      if (isStream(tar)) return await upload(() => handle.putArchiveStream(name, where), tar)
      if (!isBytes(tar)) throw invalid('The archive', tar, 'a Uint8Array or an async iterable of them')
      const bytes = copyBytes(tar, 'The archive')
      await settle(handle, () => handle.putArchive(name, where, bytes))
    },
    /**
     * @param {unknown} container
     * @param {unknown} path
     * @param {unknown} [maxOutputBytes]
     */
    async getArchive(container, path, maxOutputBytes) {
      const name = id(container)
      const where = containerPath(path)
      const most = optionalNumber(maxOutputBytes, 'maxOutputBytes')
      const { tar, statJson } = await settle(handle, () => handle.getArchive(name, where, most))
      return { tar, stat: JSON.parse(statJson) }
    },
    /**
     * @param {unknown} container
     * @param {unknown} path
     * @param {unknown} [maxOutputBytes]
     */
    getArchiveStream(container, path, maxOutputBytes) {
      const name = id(container)
      const where = containerPath(path)
      const most = optionalNumber(maxOutputBytes, 'maxOutputBytes')
      return download(() => handle.getArchiveStream(name, where, most))
    },
  }
}

/** @param {DockerHandle} handle */
function imagesAndNetworks(handle) {
  return {
    async info() {
      return JSON.parse(await settle(handle, () => handle.info()))
    },
    /** @param {unknown} image */
    async inspectImage(image) {
      const name = nonEmptyString(image, 'The image')
      return JSON.parse(await settle(handle, () => handle.inspectImage(name)))
    },
    /** @param {unknown} image */
    async pullImage(image) {
      const name = nonEmptyString(image, 'The image')
      await settle(handle, () => handle.pullImage(name))
    },
    /**
     * @param {unknown} container
     * @param {unknown} repo
     * @param {unknown} tag
     * @param {unknown} [labels]
     */
    async commitContainer(container, repo, tag, labels) {
      const name = id(container)
      const repository = string(repo, 'The repository')
      const tagName = string(tag, 'The tag')
      const json = labels === undefined ? undefined : encodeStrictly(labels, 'The labels')
      return { Id: await settle(handle, () => handle.commitContainer(name, repository, tagName, json)) }
    },
    /** @param {unknown} image */
    async removeImage(image) {
      const name = id(image)
      await settle(handle, () => handle.removeImage(name))
    },
    /** @param {unknown} name */
    async createNetwork(name) {
      const wanted = nonEmptyString(name, 'The network name')
      return JSON.parse(await settle(handle, () => handle.createNetwork(wanted)))
    },
    /** @param {unknown} network */
    async removeNetwork(network) {
      const name = id(network)
      await settle(handle, () => handle.removeNetwork(name))
    },
  }
}

/**
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {DockerHandle} handle
 */
function executor(binding, handle) {
  /**
   * @param {unknown} container
   * @param {any} options
   */
  return async (container, options) => {
    const name = id(container)
    if (typeof options !== 'object' || options === null) throw invalid('The exec options', options, 'an object')
    const { signal, ...request } = pickExecOptions(options)
    const json = encodeStrictly(checkExecOptions(request), 'exec')
    const what = `Exec in container ${quote(name)}`
    const result = await withSignal(binding, handle, signal, what, token => handle.exec(name, json, token))
    const { exitCode, stdout, stderr, truncated, timedOut } = result
    return { exitCode, stdout, stderr, truncated, timedOut }
  }
}

const EXEC_OPTIONS = 'cmd user env workingDir timeoutMs maxOutputBytes signal skipTerminate marker'.split(' ')

/**
 * The fields that the interface has; what else an application's object carries was never looked at.
 * @param {object} options
 * @returns {Record<string, unknown>}
 */
function pickExecOptions(options) {
  return Object.fromEntries(EXEC_OPTIONS.map(key => [key, read(options, key, `exec ${key}`)]))
}

/** @param {Record<string, unknown>} options */
function checkExecOptions({ cmd, user, env, workingDir, timeoutMs, maxOutputBytes, skipTerminate, marker }) {
  return {
    cmd: strings(cmd, 'exec cmd'),
    user: string(user, 'exec user'),
    env: env === undefined ? undefined : strings(env, 'exec env'),
    workingDir: string(workingDir, 'exec workingDir'),
    // A time limit that is no number has always meant the shortest one, an output cap of Infinity none.
    timeoutMs: Number.isFinite(timeoutMs) ? timeoutMs : 1,
    maxOutputBytes: maxOutputBytes === Infinity ? Number.MAX_SAFE_INTEGER : maxOutputBytes,
    skipTerminate,
    marker,
  }
}

module.exports = { createClient }
