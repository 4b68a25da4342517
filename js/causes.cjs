// @ts-check
'use strict'

/** Most errors that are kept. One is looked for as soon as the call that it ended returns. */
const MAX_KEPT = 128

/** @type {Map<number, unknown>} */
const kept = new Map()

/** Numbers cross as 32 bits; 0 stands for no error. */
const LARGEST = 2 ** 32 - 1

let last = 0

/**
 * Keeps an error of the application's own while a number in its place goes through the native part.
 * @param {unknown} error
 * @returns {number}
 */
function keepCause(error) {
  last = last === LARGEST ? 1 : last + 1
  kept.set(last, error)
  const [oldest] = kept.keys()
  if (kept.size > MAX_KEPT && oldest !== undefined) kept.delete(oldest)
  return last
}

/**
 * What an error of ours is given as its cause: nothing where there is none, or none any more.
 * @param {number | null | undefined} number
 * @returns {{ cause?: unknown }}
 */
function causeOf(number) {
  return typeof number === 'number' && kept.has(number) ? { cause: kept.get(number) } : {}
}

module.exports = { causeOf, keepCause }
