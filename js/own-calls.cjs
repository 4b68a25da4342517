// @ts-check
'use strict'

const { ERROR_CODES, SandboxError } = require('./errors.cjs')
const { keepCause } = require('./causes.cjs')
const { encodeStrictly } = require('./encode.cjs')

/** @typedef {import('./native.cjs').OwnCall} OwnCall */
/** @typedef {Record<string, (call: OwnCall) => Promise<void>>} Methods */

/** What the application's object threw or rejected with, in contrast to what we find wrong with its answers. */
class OwnFailure extends Error {}

/** What a method resolved to, for messages. */
const RESULT = 'its result'

/**
 * What the native part calls an object of the application's own through.
 * @param {Side} side
 * @param {Methods} methods
 * @returns {(call: OwnCall) => void} never throws: an exception there would end the process
 */
const dispatcher = (side, methods) => call => {
  run(side, methods, call).catch(() => undefined)
}

/**
 * Which of the application's objects is called: the option that it was passed as, what it is, and the code of a failure
 * that has none of its own.
 * @typedef {{
 *   option: string,
 *   what: 'store' | 'Docker client' | 'function',
 *   codeOf: (error: unknown) => string,
 *   nameOf?: (method: string) => string
 * }} Side
 */

/**
 * @param {Side} side
 * @param {Methods} methods
 * @param {OwnCall} call
 */
async function run(side, methods, call) {
  const method = call.method()
  try {
    await methods[method]?.(call)
  } catch (error) {
    refuse(call, side, side.nameOf?.(method) ?? `${side.option}.${method}()`, error)
  }
}

/**
 * @param {OwnCall} call
 * @param {Side} side
 * @param {string} name
 * @param {unknown} error
 */
function refuse(call, side, name, error) {
  const thrown = error instanceof OwnFailure ? error.cause : error
  if (thrown instanceof SandboxError) {
    call.refuse(thrown.code, `${name}: ${thrown.message}`, error === thrown ? NO_CAUSE : keepCause(thrown))
    return
  }
  // What it says may be a secret, such as the address of a database with its password.
  const message = `${name} of the application's own ${side.what} failed${kindOf(thrown)}; the cause is what it failed with.`
  call.refuse(side.codeOf(thrown), message, keepCause(thrown))
}

/** No error is kept under this number. */
const NO_CAUSE = 0

const WORD = /^[A-Za-z][\w$]{0,63}$/

/**
 * Name and code of an error, where it has words for them.
 * @param {any} error
 */
function kindOf(error) {
  try {
    const words = [error.name, error.code].filter(word => typeof word === 'string' && WORD.test(word))
    return words.length > 0 ? ` with ${words.join(' ')}` : ''
  } catch {
    // Null, undefined, or a getter that throws.
    return ''
  }
}

/**
 * The code of an error that speaks as this package does: another copy's, an earlier version's, or the application's own.
 * @param {any} error
 * @returns {string | undefined}
 */
function publicCodeOf(error) {
  try {
    const { code } = error
    return ERROR_CODES.find(known => known === code)
  } catch {
    return undefined
  }
}

/**
 * Runs the application's code: whatever it does is its own failure.
 * @template T
 * @param {() => T | Promise<T>} call
 * @returns {Promise<T>}
 */
async function theirs(call) {
  try {
    return await call()
  } catch (error) {
    throw new OwnFailure('', { cause: error })
  }
}

/** @param {OwnCall} call */
const argumentsOf = call => JSON.parse(call.argumentsJson())

/**
 * @param {OwnCall} call
 * @param {unknown} value
 */
function answer(call, value) {
  call.answer(encodeStrictly(value, RESULT))
}

module.exports = { RESULT, answer, argumentsOf, dispatcher, publicCodeOf, theirs }
