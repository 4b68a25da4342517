// @ts-check
'use strict'

const { invalid } = require('./describe.cjs')

/** @typedef {(event: unknown) => unknown} OnEvent */

/**
 * Each application's listener lives as long as the handles that it was kept by. Only they hold it: the native part holds
 * what it calls for ever as a root of the collector, and a listener that mentions its environment would keep it alive.
 * @type {WeakMap<object, { onEvent: OnEvent }>}
 */
const kept = new WeakMap()

/**
 * What the native part calls with each event as JSON, and what keeps the listener behind it alive.
 * @param {unknown} onEvent the option, unchecked
 */
function readListener(onEvent) {
  if (onEvent === undefined) return undefined
  if (typeof onEvent !== 'function') throw invalid('Option onEvent', onEvent, 'a function')
  const owner = { onEvent: /** @type {OnEvent} */ (onEvent) }
  return {
    hear: hearing(new WeakRef(owner)),
    /** @param {object} handle */
    keptBy(handle) {
      kept.set(handle, owner)
    },
  }
}

/**
 * A function of its own, since the functions of one scope keep all alive that any of them mentions.
 * @param {WeakRef<{ onEvent: OnEvent }>} listener
 */
function hearing(listener) {
  /** @param {string} json */
  return json => {
    const owner = listener.deref()
    if (owner) void tell(owner.onEvent, json)
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
