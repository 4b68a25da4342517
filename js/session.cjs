// @ts-check
'use strict'

const { SandboxError, unwrap } = require('./errors.cjs')
const { invalid, quote } = require('./describe.cjs')
const { withSignal } = require('./abort.cjs')
const { copyBytes } = require('./bytes.cjs')
const { deepFreeze } = require('./canonical.cjs')
const { optionalNumber, path: checkPath, readOptions } = require('./arguments.cjs')
const { authorizer } = require('./authorize.cjs')
const { releaser } = require('./release.cjs')
const { COMMAND_OPTIONS, commands } = require('./commands.cjs')
const { readFileStream, writeFileStream } = require('./streams.cjs')

/** @typedef {import('./native.cjs').NativeBinding} NativeBinding */
/** @typedef {import('./native.cjs').SessionHandle} SessionHandle */

/** What the session's methods and the tools have in common. @typedef {ReturnType<typeof operations>} Operations */

const READ_ENCODINGS = ['bytes', 'utf8', 'base64']

/**
 * The native calls of a session with checked arguments and shaped results.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 */
function operations(binding, handle) {
  return {
    ...commands(binding, handle),

    /**
     * @param {unknown} given
     * @param {string} encoding
     * @param {{ offset?: unknown, limit?: unknown, signal?: unknown }} options
     */
    async read(given, encoding, { offset, limit, signal }) {
      const path = checkPath(given)
      const from = optionalNumber(offset, 'readFile offset')
      const most = optionalNumber(limit, 'readFile limit')
      const part = await withSignal(binding, handle, signal, `Reading ${quote(path)}`, token =>
        handle.readFile(path, encoding, from, most, token),
      )
      return {
        path: part.path,
        contents: encoding === 'bytes' ? part.data : part.text,
        encoding: part.encoding,
        offset: part.offset,
        size: part.size,
        truncated: part.truncated,
        ...(part.trimmed ? { trimmed: true } : {}),
      }
    },

    /**
     * @param {unknown} given
     * @param {Uint8Array} contents a private copy
     * @param {{ mode?: unknown, signal?: unknown }} options
     */
    async write(given, contents, { mode, signal }) {
      const path = checkPath(given)
      const bits = optionalNumber(mode, 'writeFile mode')
      const { path: written, size } = await withSignal(binding, handle, signal, `Writing ${quote(path)}`, token =>
        handle.writeFile(path, contents, bits, token),
      )
      return { path: written, size }
    },

    /**
     * @param {unknown} given
     * @param {string} contents
     * @param {string} encoding
     * @param {{ mode?: number | undefined, signal?: unknown }} options
     */
    async writeText(given, contents, encoding, { mode, signal }) {
      const path = checkPath(given)
      const { path: written, size } = await withSignal(binding, handle, signal, `Writing ${quote(path)}`, token =>
        handle.writeText(path, contents, encoding, mode, token),
      )
      return { path: written, size }
    },

    /**
     * @param {unknown} given
     * @param {{ depth?: unknown, limit?: unknown, signal?: unknown }} options
     */
    async list(given, { depth, limit, signal }) {
      const path = checkPath(given)
      const levels = optionalNumber(depth, 'list depth')
      const most = optionalNumber(limit, 'list limit')
      const listing = await withSignal(binding, handle, signal, `Listing ${quote(path)}`, token =>
        handle.list(path, levels, most, token),
      )
      return { path: listing.path, entries: JSON.parse(listing.entriesJson), truncated: listing.truncated }
    },
  }
}

/**
 * The session that `acquire` returns. Its methods need no `this`.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {{ manifest: object, binding: object }} identity both frozen
 * @param {import('./options.cjs').Registry} registry
 */
function createSession(binding, handle, identity, registry) {
  const operate = operations(binding, handle)
  const capabilities = deepFreeze(JSON.parse(unwrap(() => handle.capabilitiesJson())))
  const { release, isReleased } = releaser(handle)
  const session = {
    ...identity,
    capabilities,
    authorize: authorizer(handle, isReleased),
    /**
     * @param {unknown} _request
     * @param {unknown} operation
     */
    async execute(_request, operation) {
      if (typeof operation !== 'function') throw invalid('The operation of execute', operation, 'a function')
      if (isReleased()) throw released('execute')
      return await operation()
    },
    release,
    ...files(operate),
    /** @param {unknown} request */
    exec: async request => operate.exec(readOptions(request, 'exec', COMMAND_OPTIONS)),
    /** @param {unknown} request */
    execStream: async request => operate.execStream(readOptions(request, 'execStream', COMMAND_OPTIONS)),
    /** @param {unknown} request */
    spawn: async request => operate.spawn(readOptions(request, 'spawn', COMMAND_OPTIONS)),
    /** @param {unknown} [options] */
    async snapshot(options) {
      const { signal } = readOptions(options, 'snapshot', ['signal'])
      return JSON.parse(await withSignal(binding, handle, signal, 'The snapshot', token => handle.snapshot(token)))
    },
    ...fileStreams(binding, handle),
    /** Leaving an `await using` block ends the run, unless it was released before. */
    [Symbol.asyncDispose]: () => release({ status: 'completed' }),
  }
  registry.sessions.set(session, operate)
  return session
}

/** @param {Operations} operate */
function files(operate) {
  return {
    /**
     * @param {unknown} path
     * @param {unknown} [options]
     */
    async readFile(path, options) {
      const { encoding = 'bytes', ...rest } = readOptions(options, 'readFile', [
        'encoding',
        'offset',
        'limit',
        'signal',
      ])
      if (typeof encoding !== 'string' || !READ_ENCODINGS.includes(encoding)) {
        throw invalid('readFile encoding', encoding, '"bytes", "utf8" or "base64"')
      }
      return await operate.read(path, encoding, rest)
    },
    /**
     * @param {unknown} path
     * @param {unknown} contents
     * @param {unknown} [options]
     */
    async writeFile(path, contents, options) {
      const rest = readOptions(options, 'writeFile', ['mode', 'signal'])
      return await operate.write(path, copyBytes(contents, 'The contents for writeFile'), rest)
    },
    /**
     * @param {unknown} [path]
     * @param {unknown} [options]
     */
    async list(path = '.', options) {
      return await operate.list(path, readOptions(options, 'list', ['depth', 'limit', 'signal']))
    },
  }
}

/**
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 */
function fileStreams(binding, handle) {
  return {
    /**
     * @param {unknown} path
     * @param {unknown} [options]
     */
    async readFileStream(path, options) {
      const rest = readOptions(options, 'readFileStream', ['offset', 'limit', 'signal'])
      return await readFileStream(binding, handle, path, rest)
    },
    /**
     * @param {unknown} path
     * @param {unknown} contents
     * @param {unknown} [options]
     */
    async writeFileStream(path, contents, options) {
      const rest = readOptions(options, 'writeFileStream', ['mode', 'signal'])
      return await writeFileStream(binding, handle, path, contents, rest)
    },
  }
}

/** @param {string} what */
const released = what =>
  new SandboxError('RELEASED', `${what} was called on a session that is released; acquire the run again.`)

module.exports = { createSession }
