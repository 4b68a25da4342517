// @ts-check
'use strict'

/** Statuses of a run that the runtime may release with: five that keep the container, four that end it. */
const STATUSES =
  'queued running suspended waiting_approval cancel_requested completed failed cancelled timed_out'.split(' ')

/** Longest error message that is handed on, in UTF-16 units; it is only kept on record. */
const MAX_MESSAGE = 1_000

/**
 * `release` of a session. It never rejects: the runtime calls it from a `finally`, where a rejection would replace the
 * run's result. The first call counts, later ones wait for it.
 * @param {import('./native.cjs').SessionHandle} handle
 */
function releaser(handle) {
  /** @type {Promise<void> | undefined} */
  let releasing
  /** @param {unknown} request */
  const run = async (request) => {
    try {
      await handle.release(readStatus(request), readMessage(request))
    } catch {
      // The native part keeps failures to itself; one that escapes is a fault of ours that must stay here too.
    }
  }
  return {
    /**
     * @param {unknown} [request]
     * @returns {Promise<void>}
     */
    release: (request) => (releasing ??= run(request)),
    isReleased() {
      return releasing !== undefined || handle.isReleased()
    },
  }
}

/**
 * A status that is none, or that a newer runtime invented, keeps the workspace: removing it could not be undone, and
 * what is kept ends with its lease.
 * @param {any} request
 * @returns {string}
 */
function readStatus(request) {
  try {
    const status = request?.status
    return STATUSES.includes(status) ? status : 'suspended'
  } catch {
    return 'suspended'
  }
}

/**
 * @param {any} request
 * @returns {string | undefined}
 */
function readMessage(request) {
  try {
    const message = request?.error?.message
    return typeof message === 'string' ? message.slice(0, MAX_MESSAGE).toWellFormed() : undefined
  } catch {
    return undefined
  }
}

module.exports = { releaser }
