// @ts-check
'use strict'

const { ERROR_CODES, SandboxError } = require('./errors.cjs')
const { keepCause } = require('./causes.cjs')
const { encodeStrictly } = require('./encode.cjs')

/** @typedef {import('./native.cjs').OwnCall} OwnCall */
/** Each calls the application's object. @typedef {Record<string, (own: any, call: OwnCall) => Promise<void>>} Methods */

/**
 * What the application's objects threw or rejected with, by the errors that stand for it, in contrast to what we find wrong
 * with their answers. Not a class: `instanceof` would ask a proxy that was thrown for its prototype.
 * @type {WeakMap<any, unknown>}
 */
const ownFailures = new WeakMap()

/** What a method resolved to, for messages. */
const RESULT = 'its result'

/**
 * What the native part calls an object of the application's own through. Neither this nor `methods` may hold that object
 * other than weakly; `lifetimes.cjs` says why.
 * @param {Side} side
 * @param {WeakRef<object>} own
 * @param {Methods} methods
 * @returns {(call: OwnCall) => void} never throws: an exception there would end the process
 */
const dispatcher = (side, own, methods) => call => {
  run(side, own, methods, call).catch(() => undefined)
}

/**
 * Which of the application's objects is called: the option that it was passed as, what it is, the code of a failure that
 * has none of its own, and the methods that go on with what an earlier call gave, and do without the object.
 * @typedef {{
 *   option: string,
 *   what: 'store' | 'Docker client' | 'function',
 *   codeOf: (error: unknown) => string,
 *   nameOf?: (method: string) => string,
 *   ongoing?: readonly string[]
 * }} Side
 */

/**
 * @param {Side} side
 * @param {WeakRef<object>} reference
 * @param {Methods} methods
 * @param {OwnCall} call
 */
async function run(side, reference, methods, call) {
  const method = call.method()
  const own = reference.deref()
  try {
    if (own === undefined && !side.ongoing?.includes(method)) throw collected(side)
    await methods[method]?.(own, call)
  } catch (error) {
    refuse(call, own, side, side.nameOf?.(method) ?? `${side.option}.${method}()`, error)
  }
}

/** @param {Side} side */
const collected = ({ what }) =>
  new SandboxError(
    'RELEASED',
    `the application's own ${what} was collected, since nothing held its environment any more, nor a session or stream ` +
      'of that. Keep a session until it is released.',
  )

/**
 * @param {OwnCall} call
 * @param {object | undefined} own
 * @param {Side} side
 * @param {string} name
 * @param {unknown} error
 */
function refuse(call, own, side, name, error) {
  const thrown = ownFailures.has(error) ? ownFailures.get(error) : error
  const ours = wordsOf(thrown)
  const cause = own === undefined || (ours && error === thrown) ? NO_CAUSE : keepCause(own, thrown)
  if (ours) {
    call.refuse(ours.code, `${name}: ${ours.message}`, cause)
    return
  }
  // What it says may be a secret, such as the address of a database with its password.
  const message = `${name} of the application's own ${side.what} failed${kindOf(thrown)}; the cause is what it failed with.`
  call.refuse(side.codeOf(thrown), message, cause)
}

/** No error is kept under this number. */
const NO_CAUSE = 0

/**
 * Code and message of an error of this package. One that cannot be looked at, or has something else in their place, counts
 * as any other error: a refusal that throws would leave the call without an answer.
 * @param {unknown} error
 */
function wordsOf(error) {
  try {
    if (!(error instanceof SandboxError)) return undefined
    const { code, message } = error
    return typeof code === 'string' && typeof message === 'string' ? { code, message } : undefined
  } catch {
    return undefined
  }
}

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
    const failure = new Error('The application failed.')
    ownFailures.set(failure, error)
    throw failure
  }
}

/** @param {OwnCall} call */
const argumentsOf = call => JSON.parse(call.argumentsJson())

/**
 * @param {OwnCall} call
 * @param {unknown} value
 * @returns {boolean} false where nobody waits for it any more
 */
function answer(call, value) {
  return call.answer(encodeStrictly(value, RESULT))
}

module.exports = { RESULT, answer, argumentsOf, dispatcher, publicCodeOf, theirs }
