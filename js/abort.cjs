// @ts-check
'use strict'

const { SandboxError, settle } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')

/** @typedef {import('./native.cjs').NativeBinding} NativeBinding */
/** @typedef {import('./native.cjs').CancelToken} CancelToken */

/**
 * Checks that a value can serve as a signal. Structural: polyfills and other realms have classes of their own.
 * @param {unknown} value
 * @param {string} name
 * @returns {AbortSignal | undefined}
 */
function checkSignal(value, name) {
  if (value === undefined) return undefined
  const signal = /** @type {any} */ (value)
  const fits =
    typeof signal?.aborted === 'boolean' &&
    typeof signal.addEventListener === 'function' &&
    typeof signal.removeEventListener === 'function'
  if (!fits) throw invalid(name, value, 'an AbortSignal')
  return signal
}

/**
 * Runs a native call that the signal cancels. The listener is removed however the call ends.
 * @template T
 * @param {NativeBinding} binding
 * @param {unknown} value the caller's signal, unchecked
 * @param {string} what for messages: what is cancelled
 * @param {(token: CancelToken | undefined) => T | Promise<T>} call
 */
async function withSignal(binding, value, what, call) {
  const signal = checkSignal(value, 'signal')
  if (!signal) return await settle(() => call(undefined))
  if (signal.aborted) {
    throw new SandboxError('CANCELLED', `${what} was cancelled before it began.`, { cause: signal.reason })
  }
  const token = new binding.CancelToken()
  const cancel = () => token.cancel()
  signal.addEventListener('abort', cancel, { once: true })
  try {
    return await settle(() => call(token))
  } catch (error) {
    if (error instanceof SandboxError && error.code === 'CANCELLED' && signal.aborted) error.cause = signal.reason
    throw error
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

module.exports = { checkSignal, withSignal }
