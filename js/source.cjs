// @ts-check
'use strict'

const { invalid } = require('./describe.cjs')

/** @typedef {AsyncIterable<unknown> | Iterable<unknown>} AnyIterable */
/** An application's iterable that is read. @typedef {ReturnType<typeof sourceOf>} Source */

/**
 * Reads an application's iterable, async or not, once: step by step, as `for await` would.
 * @param {AnyIterable} iterable
 * @param {string} name for messages: what it is to us
 */
function sourceOf(iterable, name) {
  /** @type {Stepping | undefined} */
  let iterator
  let isOver = false
  const leave = () => {
    if (isOver) return
    isOver = true
    if (iterator) quietly(iterator.leave)
  }
  return {
    /** The next step, which is an object whatever the application's iterator gives. */
    async next() {
      try {
        iterator ??= open(iterable, name)
        const step = await iterator.next()
        if (!isObject(step)) {
          leave()
          throw invalid(`The result of next() of the iterator of ${name}`, step, 'an object with done and value')
        }
        if (!step.done) return { done: false, value: iterator.isAsync ? step.value : await step.value }
      } catch (error) {
        isOver = true
        throw error
      }
      isOver = true
      return { done: true, value: undefined }
    },
    /** Nobody wants more of it. Changes nothing once it is at its end, has thrown or was left. */
    leave,
  }
}

/** @typedef {{ isAsync: boolean, next: () => any, leave: () => any }} Stepping */

/**
 * @param {any} iterable
 * @param {string} name
 * @returns {Stepping}
 */
function open(iterable, name) {
  const isAsync = typeof iterable[Symbol.asyncIterator] === 'function'
  const iterator = isAsync ? iterable[Symbol.asyncIterator]() : iterable[Symbol.iterator]()
  if (!isObject(iterator)) throw invalid(`The iterator of ${name}`, iterator, 'an object with a method next')
  const { next } = iterator
  if (typeof next !== 'function') throw invalid(`next of the iterator of ${name}`, next, 'a method')
  return { isAsync, next: () => next.call(iterator), leave: () => iterator.return?.() }
}

/** @param {unknown} value @returns {value is Record<PropertyKey, any>} */
const isObject = value => (typeof value === 'object' && value !== null) || typeof value === 'function'

/**
 * Calls what closes something of the application's. It may take its time, or fail: nothing depends on it any more.
 * @param {() => any} close
 */
function quietly(close) {
  try {
    Promise.resolve(close()).catch(() => undefined)
  } catch {
    // As above.
  }
}

module.exports = { sourceOf }
