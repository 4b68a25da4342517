// @ts-check
'use strict'

const { settle } = require('./errors.cjs')

/**
 * `release` of a session. It never rejects: the runtime calls it from a `finally`, where a rejection would replace the
 * run's result. The first call counts, later ones wait for it.
 * @param {import('./native.cjs').SessionHandle} handle
 */
function releaser(handle) {
  /** @type {Promise<void> | undefined} */
  let releasing
  /** @param {unknown} request */
  const run = async request => {
    try {
      await settle(handle, () => handle.release(readStatus(request)))
    } catch {
      // The native part keeps failures to itself; one that escapes is a fault of ours that must stay here too.
    }
  }
  return {
    /**
     * @param {unknown} [request]
     * @returns {Promise<void>}
     */
    release: request => (releasing ??= run(request)),
    isReleased() {
      return releasing !== undefined || handle.isReleased()
    },
  }
}

/**
 * What a status means is decided by the native part: one that it does not know ends the run, since nobody might ask for
 * the container again. A request without any is taken for that of a run that failed.
 * @param {any} request
 * @returns {string}
 */
function readStatus(request) {
  try {
    const status = request?.status
    return typeof status === 'string' ? status.toWellFormed() : 'failed'
  } catch {
    return 'failed'
  }
}

module.exports = { releaser }
