// @ts-check
'use strict'

const { invalid } = require('./describe.cjs')

/** @typedef {AsyncIterable<unknown> | Iterable<unknown>} AnyIterable */
/** An application's iterable that is read. @typedef {ReturnType<typeof sourceOf>} Source */

/**
 * Reads an application's iterable, async or not, once: step by step, as `for await` would. Whoever takes one leaves it,
 * however that ends, also where nothing was read: the application may have opened a file for it.
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
    else discard(iterable, name)
  }
  listenForErrors(iterable)
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

/**
 * Reads an iterable by `use`, and leaves it when that has ended, or could not even begin.
 * @template T
 * @param {AnyIterable} iterable
 * @param {string} name
 * @param {(source: Source) => Promise<T>} use
 */
async function readingOf(iterable, name, use) {
  const source = sourceOf(iterable, name)
  try {
    return await use(source)
  } finally {
    source.leave()
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

/**
 * Closes what nothing was read of.
 * @param {any} iterable
 * @param {string} name
 */
function discard(iterable, name) {
  // Iterators of Node's streams, and some of the web's, close theirs only after a first step, and keep it locked.
  quietly(() => iterable.destroy?.())
  quietly(() => iterable.cancel?.())
  quietly(() => open(iterable, name).leave())
}

/**
 * A Node stream that fails while nobody reads it would end the process, if only because the file is not there. Whoever
 * reads it is told all the same.
 * @param {any} iterable
 */
function listenForErrors(iterable) {
  quietly(() => typeof iterable.destroy === 'function' && iterable.on?.('error', () => undefined))
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

module.exports = { readingOf, sourceOf }
