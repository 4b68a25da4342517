// @ts-check
'use strict'

/**
 * Makes calls one after another, in the order in which they are asked for, whatever becomes of those before; one that need
 * not wait is made at once. Native calls that wait for each other inside the native part would go on in the order in which
 * its threads come to them.
 */
function turns() {
  /** @type {Promise<void> | undefined} */
  let last
  /**
   * @template T
   * @param {() => T | Promise<T>} call
   * @returns {Promise<T>}
   */
  return call => {
    const result = last ? last.then(call) : (async () => await call())()
    // What came of it is its caller's alone.
    const pass = () => {
      if (last === turn) last = undefined
    }
    const turn = result.then(pass, pass)
    last = turn
    return result
  }
}

module.exports = { turns }
