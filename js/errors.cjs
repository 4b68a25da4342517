// @ts-check
'use strict'

const { causeOf } = require('./causes.cjs')
const { runtimeConflictError } = require('./conflict.cjs')
const { hold, letGo } = require('./lifetimes.cjs')

/** The public codes of `SandboxError`, in the order of the documentation. The core's list is the same plus `CONFLICT`. */
const ERROR_CODES = Object.freeze(
  /** @type {const} */ ([
    'DOCKER_UNAVAILABLE',
    'DOCKER_API',
    'NOT_FOUND',
    'PATH_INVALID',
    'LIMIT',
    'CANCELLED',
    'TIMEOUT',
    'DENIED',
    'LEASE_EXPIRED',
    'CONTAINER_LOST',
    'SNAPSHOT_INVALID',
    'IMAGE_MISSING',
    'CONFIG_INVALID',
    'RELEASED',
    'UNSUPPORTED',
    'INTERNAL',
  ]),
)

/** @typedef {(typeof ERROR_CODES)[number]} ErrorCode */

/** Every error of this package but a conflict over a run. */
class SandboxError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ cause?: unknown }} [options]
   */
  constructor(code, message, options) {
    super(message, options)
    /** @type {ErrorCode} */
    this.code = code
  }
}

/** The run belongs to another holder, or was started with another environment. */
class ConflictError extends Error {
  /**
   * The runtime's class of this name counts too, whichever of the two was thrown. A subclass keeps the usual meaning.
   * @override
   * @param {unknown} value
   * @returns {boolean}
   */
  static [Symbol.hasInstance](value) {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true
    if (this !== ConflictError || typeof value !== 'object' || value === null) return false
    return /** @type {any} */ (value).name === 'ConflictError'
  }
}

// On the prototype, as with the language's own errors: a bundler that renames the classes does not change them, and
// they are not listed among an error's own properties.
for (const [errorClass, name] of /** @type {const} */ ([
  [SandboxError, 'SandboxError'],
  [ConflictError, 'ConflictError'],
])) {
  Object.defineProperty(errorClass.prototype, 'name', { value: name, writable: true, configurable: true })
}

/** @typedef {{ code: string, message: string, cause?: number | null | undefined }} FailureData */

/**
 * @param {FailureData} failure
 * @returns {SandboxError}
 */
function sandboxError({ code, message, cause }) {
  const known = ERROR_CODES.find(item => item === code)
  if (known) return new SandboxError(known, message, causeOf(cause))
  return new SandboxError('INTERNAL', `The native part reported the unknown code ${code}: ${message}`)
}

/**
 * An instance of the runtime's class if there is one and it can be made from a message, else of ours.
 * @param {string} message
 * @returns {Promise<Error>}
 */
async function conflictError(message) {
  const RuntimeClass = await runtimeConflictError()
  if (!RuntimeClass) return new ConflictError(message)
  try {
    const error = new RuntimeClass(message)
    return error.message === message ? error : new ConflictError(message)
  } catch {
    return new ConflictError(message)
  }
}

/**
 * What the native part throws or rejects with, instead of returning a failure, is a fault of this package.
 * @param {unknown} error
 * @returns {SandboxError}
 */
function internalError(error) {
  const detail = error instanceof Error ? error.message : String(error)
  return new SandboxError('INTERNAL', `The native part failed unexpectedly: ${detail} Please report this.`, {
    cause: error,
  })
}

/**
 * Only a failure of the result's own: one that an application put on `Object.prototype` is none.
 * @param {any} result
 * @returns {FailureData | undefined}
 */
const failureIn = result => (Object.hasOwn(Object(result), 'failure') ? result.failure : undefined)

/**
 * Calls a native function that answers at once, and throws its failure.
 * @template T
 * @param {() => T} call
 * @returns {Exclude<T, { failure: FailureData }>}
 */
function unwrap(call) {
  /** @type {any} */
  let result
  try {
    result = call()
  } catch (error) {
    throw internalError(error)
  }
  const failure = failureIn(result)
  if (!failure) return result
  throw failure.code === 'CONFLICT' ? new ConflictError(failure.message) : sandboxError(failure)
}

/**
 * Calls a method of a native handle that answers later, and throws its failure. What of the application's the handle
 * keeps lives until then, whoever holds the handle itself.
 * @template T
 * @param {object} handle
 * @param {() => T | Promise<T>} call
 * @returns {Promise<Exclude<T, { failure: FailureData }>>}
 */
async function settle(handle, call) {
  const held = hold(handle)
  try {
    /** @type {any} */
    let result
    try {
      result = await call()
    } catch (error) {
      throw internalError(error)
    }
    const failure = failureIn(result)
    if (!failure) return result
    throw failure.code === 'CONFLICT' ? await conflictError(failure.message) : sandboxError(failure)
  } finally {
    letGo(held)
  }
}

module.exports = { ERROR_CODES, SandboxError, ConflictError, unwrap, settle }
