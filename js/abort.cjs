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
  if (!isSignal(value)) throw invalid(name, value, 'an AbortSignal')
  return value
}

/**
 * @param {any} value
 * @returns {value is AbortSignal}
 */
function isSignal(value) {
  try {
    return (
      typeof value?.aborted === 'boolean' &&
      typeof value.addEventListener === 'function' &&
      typeof value.removeEventListener === 'function'
    )
  } catch {
    // A getter or a proxy: what cannot be looked at is no signal.
    return false
  }
}

/**
 * Runs a native call that the signal cancels. The listener is removed however the call ends.
 * @template T
 * @param {NativeBinding} binding
 * @param {object} handle whose method is called
 * @param {unknown} value the caller's signal, unchecked
 * @param {string} what for messages: what is cancelled
 * @param {(token: CancelToken | undefined) => T | Promise<T>} call
 */
async function withSignal(binding, handle, value, what, call) {
  const heard = hear(binding, value, what)
  try {
    return await settle(handle, () => call(heard.token))
  } catch (error) {
    throw heard.explained(error)
  } finally {
    heard.forget()
  }
}

/**
 * What cancels something that goes on for longer than one call. @typedef {object} Heard
 * @property {CancelToken | undefined} token for the native call; none without a signal
 * @property {(error: any) => any} explained the error, with the signal's reason where that was the cause
 * @property {() => void} forget ends the listening
 * @property {boolean} isLasting it goes on when the handle is collected
 */

/**
 * Listens to a caller's signal.
 * @param {NativeBinding} binding
 * @param {unknown} value the caller's signal, unchecked
 * @param {string} what for messages: what is cancelled
 * @returns {Heard}
 */
function hear(binding, value, what) {
  const signal = checkUnaborted(value, what)
  if (!signal) return DEAF
  const token = new binding.CancelToken()
  return { token, forget: listen(signal, token), explained: explainedBy(signal), isLasting: false }
}

/**
 * As `hear`, for what goes on when nobody has its handle any more. Of its end nobody may ever be told, since a native call
 * that waits for it would keep the event loop alive; so all that has the same signal shares one token, which costs no more
 * however much of that is never forgotten.
 * @param {NativeBinding} binding
 * @param {unknown} value the caller's signal, unchecked
 * @param {string} what for messages: what is cancelled
 * @returns {Heard}
 */
function hearLasting(binding, value, what) {
  const signal = checkUnaborted(value, what)
  if (!signal) return DEAF
  const found = shared.get(signal) ?? share(signal, new binding.CancelToken())
  found.users++
  let isForgotten = false
  const forget = () => {
    if (isForgotten) return
    isForgotten = true
    if (--found.users > 0) return
    shared.delete(signal)
    found.forget()
  }
  return { token: found.token, forget, explained: explainedBy(signal), isLasting: true }
}

/** @typedef {{ token: CancelToken, forget: () => void, users: number }} Shared */

/** @type {WeakMap<object, Shared>} */
const shared = new WeakMap()

/**
 * @param {AbortSignal} signal
 * @param {CancelToken} token
 */
function share(signal, token) {
  const made = { token, forget: listen(signal, token), users: 0 }
  shared.set(signal, made)
  return made
}

/**
 * Without a signal.
 * @type {Heard}
 */
const DEAF = { token: undefined, explained: error => error, forget: () => undefined, isLasting: true }

/**
 * @param {unknown} value the caller's signal, unchecked
 * @param {string} what
 */
function checkUnaborted(value, what) {
  const signal = checkSignal(value, 'signal')
  if (!signal?.aborted) return signal
  throw new SandboxError('CANCELLED', `${what} was cancelled before it began.`, { cause: signal.reason })
}

/** @param {AbortSignal} signal @returns {Heard['explained']} */
const explainedBy = signal => error => {
  if (error instanceof SandboxError && error.code === 'CANCELLED' && signal.aborted) error.cause = signal.reason
  return error
}

/**
 * The calls that each signal cancels. One listener serves them all: with one for each, Node warns of a leak when more
 * than ten calls share a signal.
 * @type {WeakMap<object, { tokens: Set<CancelToken>, cancel: () => void }>}
 */
const listening = new WeakMap()

/**
 * @param {AbortSignal} signal
 * @param {CancelToken} token
 * @returns {() => void} ends it
 */
function listen(signal, token) {
  let found = listening.get(signal)
  if (!found) {
    /** @type {Set<CancelToken>} */
    const tokens = new Set()
    found = { tokens, cancel: () => tokens.forEach(each => each.cancel()) }
    signal.addEventListener('abort', found.cancel, { once: true })
    listening.set(signal, found)
  }
  found.tokens.add(token)
  return forgetting(new WeakRef(signal), token)
}

/**
 * What is to be done when a handle is collected is itself never collected before, and the application's listeners on the
 * signal may mention what has that handle: so this holds no signal. A function of its own, since the functions of one scope
 * keep all alive that any of them mentions.
 * @param {WeakRef<AbortSignal>} reference
 * @param {CancelToken} token
 */
function forgetting(reference, token) {
  return () => {
    const signal = reference.deref()
    const found = signal && listening.get(signal)
    if (!found) return
    found.tokens.delete(token)
    if (found.tokens.size > 0) return
    listening.delete(signal)
    signal.removeEventListener('abort', found.cancel)
  }
}

module.exports = { checkSignal, hear, hearLasting, withSignal }
