// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { read } = require('./arguments.cjs')
const { download } = require('./archive-stream.cjs')
const { copyBytes, isBytes } = require('./bytes.cjs')
const { encodeStrictly } = require('./encode.cjs')
const { RESULT, answer, argumentsOf, dispatcher, publicCodeOf, theirs } = require('./own-calls.cjs')

/** Methods of `DockerClient`; an object that is to be one must have them all. */
const CLIENT_METHODS = (
  'createContainer startContainer inspectContainer removeContainer killContainer listContainers putArchive getArchive ' +
  'exec realpath commitContainer removeImage createNetwork removeNetwork'
).split(' ')
/** Methods that it may have besides. */
const OPTIONAL_METHODS = ['info', 'inspectImage', 'pullImage']
/** Those that take words and give JSON, or nothing that is looked at. */
const ANSWERING =
  'createContainer inspectContainer listContainers realpath commitContainer createNetwork info inspectImage'.split(' ')
const SILENT = 'startContainer removeContainer killContainer removeImage removeNetwork pullImage'.split(' ')

/** @typedef {import('./own-calls.cjs').Methods} Methods */

/** @type {import('./own-calls.cjs').Side} */
const CLIENT = { option: 'client', what: 'Docker client', codeOf }

/**
 * Errors with a code of ours keep it. Others are the engine's: those of HTTP clients have its status, and what is gone,
 * or has a name already, must be told from what failed.
 * @param {any} error
 */
function codeOf(error) {
  const known = publicCodeOf(error)
  if (known) return known
  try {
    if (error.name === 'ConflictError' || error.statusCode === 409) return 'CONFLICT'
    return error.statusCode === 404 ? 'NOT_FOUND' : 'DOCKER_API'
  } catch {
    return 'DOCKER_API'
  }
}

/** @type {Methods} */
const ARCHIVE_METHODS = {
  async putArchive(client, call) {
    const [id, path] = argumentsOf(call)
    const tar = await bytesOf(download(() => /** @type {import('./native.cjs').ArchiveDownload} */ (call.tar())))
    await theirs(() => client.putArchive(id, path, tar))
    answer(call, null)
  },
  async getArchive(client, call) {
    const [id, path, maxOutputBytes] = argumentsOf(call)
    const found = await theirs(() => client.getArchive(id, path, maxOutputBytes))
    call.answerParts('null', [bytesIn(found, 'tar')])
  },
}

/** @param {string} method @returns {[string, Methods[string]]} */
const answering = method => [
  method,
  async (client, call) => {
    const given = argumentsOf(call)
    answer(call, (await theirs(() => client[method](...given))) ?? null)
  },
]

/** @param {string} method @returns {[string, Methods[string]]} */
const silent = method => [
  method,
  async (client, call) => {
    const given = argumentsOf(call)
    await theirs(() => client[method](...given))
    answer(call, null)
  },
]

/** @type {Methods} */
const PLAIN_METHODS = Object.fromEntries([...ANSWERING.map(answering), ...SILENT.map(silent)])

/** @returns {Methods} */
function commandMethods() {
  /**
   * Of commands that run, by the number of their call. Held with the client and no longer: what the application listens to
   * a signal with mentions its client, and a promise of its own that never settles would hold that for ever.
   * @type {WeakMap<object, Map<number, AbortController>>}
   */
  const running = new WeakMap()
  return {
    async exec(client, call) {
      const [id, options] = argumentsOf(call)
      const controller = new AbortController()
      const controllers = running.get(client) ?? new Map()
      running.set(client, controllers.set(call.stream(), controller))
      try {
        const result = await theirs(() => client.exec(id, { ...options, signal: controller.signal }))
        call.answerParts(factsOf(result), [bytesIn(result, 'stdout'), bytesIn(result, 'stderr')])
      } finally {
        controllers.delete(call.stream())
      }
    },
    async abort(client, call) {
      const reason = new SandboxError('CANCELLED', 'The sandbox command was cancelled.')
      running.get(client)?.get(call.stream())?.abort(reason)
    },
  }
}

/**
 * What the native part calls a Docker client of the application's own through.
 * @param {WeakRef<object>} client its methods were looked at; they are called as methods, since applications write classes
 */
const clientDispatch = client =>
  dispatcher(CLIENT, client, { ...PLAIN_METHODS, ...ARCHIVE_METHODS, ...commandMethods() })

/** @param {AsyncIterable<Uint8Array>} tar */
async function bytesOf(tar) {
  const pieces = []
  for await (const piece of tar) pieces.push(piece)
  return new Uint8Array(Buffer.concat(pieces))
}

/**
 * @param {unknown} result
 * @param {string} key
 */
function bytesIn(result, key) {
  const value = memberOf(result, key)
  if (!isBytes(value)) throw invalid(`${RESULT}.${key}`, value, 'a Uint8Array')
  return copyBytes(value, `${RESULT}.${key}`)
}

/** @param {unknown} result */
function factsOf(result) {
  const [exitCode, truncated, timedOut] = ['exitCode', 'truncated', 'timedOut'].map(key => memberOf(result, key))
  return encodeStrictly({ exitCode, truncated, timedOut }, RESULT)
}

/**
 * @param {unknown} result
 * @param {string} key
 */
function memberOf(result, key) {
  if (typeof result !== 'object' || result === null) throw invalid(RESULT, result, 'an object')
  return read(result, key, `${RESULT}.${key}`)
}

module.exports = { CLIENT_METHODS, OPTIONAL_METHODS, clientDispatch }
