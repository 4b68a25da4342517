// @ts-check
'use strict'

const { invalid } = require('./describe.cjs')

/** @typedef {(event: unknown) => unknown} OnEvent */

/**
 * What the native part calls with each event as JSON.
 * @param {unknown} onEvent the option, unchecked
 * @param {import('./lifetimes.cjs').Weakly} weakly
 */
function readListener(onEvent, weakly) {
  if (onEvent === undefined) return undefined
  if (typeof onEvent !== 'function') throw invalid('Option onEvent', onEvent, 'a function')
  return hearing(weakly(/** @type {OnEvent} */ (onEvent)))
}

/**
 * A function of its own, since the functions of one scope keep all alive that any of them mentions.
 * @param {WeakRef<OnEvent>} listener
 */
function hearing(listener) {
  /** @param {string} json */
  return json => {
    const onEvent = listener.deref()
    if (onEvent) void tell(onEvent, json)
  }
}

/**
 * Whatever the listener does, throw, reject or never end, is its own affair.
 * @param {OnEvent} onEvent
 * @param {string} json
 */
async function tell(onEvent, json) {
  try {
    await onEvent(JSON.parse(json))
  } catch {
    // There is nobody to tell: an error of ours would end the process of an application that only wanted to log.
  }
}

module.exports = { readListener }
