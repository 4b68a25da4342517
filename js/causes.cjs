// @ts-check
'use strict'

/** Most errors that are kept. One is looked for as soon as the call that it ended returns. */
const MAX_KEPT = 128

/**
 * Errors by their numbers, for each object of the application's that they came of: an error that mentions its environment,
 * or what that was made with, must not outlive that.
 * @type {WeakMap<object, Map<number, unknown>>}
 */
const kept = new WeakMap()

/** What each error that is kept came of. @type {Map<number, WeakRef<object>>} */
const origins = new Map()

/** Numbers cross as 32 bits; 0 stands for no error. */
const LARGEST = 2 ** 32 - 1

let last = 0

/**
 * Keeps an error of the application's own while a number in its place goes through the native part.
 * @param {object} origin the application's object that it came of
 * @param {unknown} error
 * @returns {number}
 */
function keepCause(origin, error) {
  last = last === LARGEST ? 1 : last + 1
  const errors = kept.get(origin) ?? new Map()
  kept.set(origin, errors.set(last, error))
  origins.set(last, new WeakRef(origin))
  const [oldest] = origins.keys()
  if (origins.size > MAX_KEPT && oldest !== undefined) forget(oldest)
  return last
}

/** @param {number} number */
function forget(number) {
  errorsBeside(number)?.delete(number)
  origins.delete(number)
}

/** @param {number} number */
function errorsBeside(number) {
  const origin = origins.get(number)?.deref()
  return origin && kept.get(origin)
}

/**
 * What an error of ours is given as its cause: nothing where there is none, or none any more.
 * @param {number | null | undefined} number
 * @returns {{ cause?: unknown }}
 */
function causeOf(number) {
  if (typeof number !== 'number') return {}
  const errors = errorsBeside(number)
  return errors?.has(number) ? { cause: errors.get(number) } : {}
}

module.exports = { causeOf, keepCause }
