// @ts-check
'use strict'

const { SandboxError, settle } = require('./errors.cjs')
const { invalid, quote } = require('./describe.cjs')
const { hear, hearLasting, withSignal } = require('./abort.cjs')
const { copyBytes } = require('./bytes.cjs')
const { isStream } = require('./archive-stream.cjs')
const { encodeStrictly } = require('./encode.cjs')
const { keeping } = require('./lifetimes.cjs')
const { nonEmptyString, optionalNumber, path: checkPath, strings } = require('./arguments.cjs')
const { createProcess, createStream, endingOf } = require('./process.cjs')
const { readingOf, sourceOf } = require('./source.cjs')
const { feed } = require('./streams.cjs')

/** @typedef {import('./native.cjs').NativeBinding} NativeBinding */
/** @typedef {import('./native.cjs').SessionHandle} SessionHandle */
/** @typedef {import('./source.cjs').Source} Source */

/** The options of every command. */
const COMMAND_OPTIONS = ['command', 'args', 'cwd', 'env', 'stdin', 'timeoutMs', 'signal']

/**
 * The commands of a session with checked arguments and shaped results.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 */
function commands(binding, handle) {
  return {
    /** @param {Record<string, unknown>} request */
    async exec(request) {
      const { json, what, bytes, source } = readCommand(request, 'exec')
      const result = source
        ? await readingOf(source, 'exec stdin', source =>
            fedExec(binding, handle, { json, what, source, signal: request.signal }),
          )
        : await withSignal(binding, handle, request.signal, what, token => handle.exec(json, bytes, undefined, token))
      const { stdout, stderr, truncated } = result
      return { ...endingOf(result), stdout, stderr, truncated }
    },

    /** @param {Record<string, unknown>} request */
    async execStream(request) {
      const { native, heard, fault } = await start(binding, handle, request, 'execStream')
      return createStream(native, heard, fault)
    },

    /** @param {Record<string, unknown>} request */
    async spawn(request) {
      const { native, heard, fault, pipe } = await start(binding, handle, request, 'spawn')
      return createProcess(native, heard, fault, pipe)
    },
  }
}

/**
 * Runs a command to its end with an iterable as its input.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {{ json: string, what: string, source: Source, signal: unknown }} command
 */
async function fedExec(binding, handle, { json, what, source, signal }) {
  const heard = hear(binding, signal, what)
  const token = heard.token ?? new binding.CancelToken()
  const pipe = keeping(new binding.InputPipe(), handle)
  try {
    const running = settle(handle, () => handle.exec(json, undefined, pipe, token))
    const feeding = feed(pipe, source, running).catch(error => {
      token.cancel()
      throw error
    })
    const [ran, fed] = await Promise.allSettled([running, feeding])
    if (fed.status === 'rejected') throw fed.reason
    if (ran.status === 'rejected') throw heard.explained(ran.reason)
    return ran.value
  } finally {
    heard.forget()
  }
}

/**
 * Starts a command, and feeds it where its input is an iterable.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {Record<string, unknown>} request
 * @param {'execStream' | 'spawn'} method
 */
async function start(binding, handle, request, method) {
  const { source: stdin, ...command } = readCommand(request, method)
  const source = stdin && sourceOf(stdin, `${method} stdin`)
  try {
    return await startFed(binding, handle, request, { ...command, source, background: method === 'spawn' })
  } catch (error) {
    source?.leave()
    throw error
  }
}

/**
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {Record<string, unknown>} request
 * @param {Omit<ReturnType<typeof readCommand>, 'source'> & { source: Source | undefined, background: boolean }} command
 */
async function startFed(binding, handle, request, { json, what, bytes, source, background }) {
  const heard = (background ? hearLasting : hear)(binding, request.signal, what)
  const isOpen = background && request.stdin === undefined
  const pipe = source || isOpen ? keeping(new binding.InputPipe(), handle) : undefined
  try {
    const native = await settle(handle, () => handle.start(json, background, bytes, pipe, heard.token))
    keeping(native, handle)
    /** @type {import('./process.cjs').Fault} */
    const fault = {}
    if (pipe && source) {
      feed(
        pipe,
        source,
        settle(native, () => native.result()),
      ).catch(error => {
        fault.error = error
        return settle(native, () => native.stop()).catch(() => undefined)
      })
    }
    return { native, heard, fault, pipe: isOpen ? pipe : undefined }
  } catch (error) {
    heard.forget()
    throw heard.explained(error)
  }
}

/**
 * @param {Record<string, unknown>} request
 * @param {string} method
 */
function readCommand({ command, args, cwd, env, stdin, timeoutMs }, method) {
  const name = nonEmptyString(command, `${method} command`)
  const request = {
    command: name,
    args: args === undefined ? undefined : strings(args, `${method} args`),
    cwd: cwd === undefined ? undefined : checkPath(cwd),
    env: env === undefined ? undefined : variables(env, method),
    timeoutMs: optionalNumber(timeoutMs, `${method} timeoutMs`),
  }
  const source = isStream(stdin) ? stdin : undefined
  return {
    json: encodeStrictly(request, method),
    what: `Running ${quote(name)}`,
    bytes: stdin === undefined || source ? undefined : copyBytes(stdin, `${method} stdin`),
    source,
  }
}

/**
 * @param {unknown} env
 * @param {string} method
 * @returns {Record<string, string>}
 */
function variables(env, method) {
  const given = JSON.parse(encodeStrictly(env, `${method} env`))
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalid(`${method} env`, env, 'an object of strings')
  }
  for (const [key, value] of Object.entries(given)) {
    // The value stays out of the message: it may be a secret, whatever its type.
    if (typeof value === 'string') continue
    throw new SandboxError('CONFIG_INVALID', `${method} env.${key} was a ${typeof value}; it must be a string.`)
  }
  return given
}

module.exports = { COMMAND_OPTIONS, commands }
