// @ts-check
'use strict'

const { types } = require('node:util')
const { SandboxError } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { read } = require('./arguments.cjs')
const { download, isStream } = require('./archive-stream.cjs')
const { copyBytes } = require('./bytes.cjs')
const { keepCause } = require('./causes.cjs')
const { encodeStrictly } = require('./encode.cjs')

/** @typedef {import('./native.cjs').StoreCall} StoreCall */
/** @typedef {Record<string, (call: StoreCall) => Promise<void>>} Methods */

/** What the application's store threw or rejected with, in contrast to what we find wrong with its answers. */
class StoreFailure extends Error {}

/**
 * What the native part calls a lease store of the application's own through.
 * @param {any} store its methods were looked at; they are called as methods, since applications write classes
 */
const leaseStoreDispatch = store =>
  dispatcher('leaseStore', {
    async load(call) {
      const [key] = argumentsOf(call)
      answer(call, (await theirs(() => store.load(key))) ?? null)
    },
    async save(call) {
      const [record, expectedFence] = argumentsOf(call)
      answer(call, checkBoolean(await theirs(() => store.save(record, expectedFence))))
    },
    async remove(call) {
      const [key, expectedFence] = argumentsOf(call)
      answer(call, checkBoolean(await theirs(() => store.remove(key, expectedFence))))
    },
    async list(call) {
      const [ownerId] = argumentsOf(call)
      const records = await theirs(() => store.list(ownerId))
      if (!Array.isArray(records)) throw invalid(RESULT, records, 'an array of records')
      answer(call, records)
    },
  })

/**
 * The same for a snapshot store. `next` and `return` are of the tar that a `load` gave; what is read of it is asked for
 * piece by piece.
 * @param {any} store
 */
function snapshotStoreDispatch(store) {
  /** @type {Map<number, AsyncGenerator<unknown>>} */
  const tars = new Map()
  /** @param {number} stream */
  const close = stream => {
    const tar = tars.get(stream)
    tars.delete(stream)
    // How a tar that nobody reads any more ends is nobody's business; its error would end the process.
    tar?.return(undefined).catch(() => undefined)
  }
  return dispatcher('snapshotStore', {
    async load(call) {
      const [key] = argumentsOf(call)
      const found = (await theirs(() => store.load(key))) ?? null
      if (found === null) return answer(call, null)
      const { meta, tar } = checkSnapshot(found)
      tars.set(call.stream(), piecesOf(tar))
      if (!call.answer(meta)) close(call.stream())
    },
    async next(call) {
      const tar = tars.get(call.stream())
      if (tar === undefined) return void call.answerPiece(null)
      const { value, done } = await theirs(() => tar.next())
      if (done) {
        tars.delete(call.stream())
        return void call.answerPiece(null)
      }
      if (!types.isUint8Array(value)) throw invalid('A piece of the tar', value, 'a Uint8Array')
      call.answerPiece(copyBytes(value, 'A piece of the tar'))
    },
    async return(call) {
      close(call.stream())
    },
    async save(call) {
      const [key, meta] = argumentsOf(call)
      const tar = download(() => /** @type {import('./native.cjs').ArchiveDownload} */ (call.tar()))
      await theirs(() => store.save(key, meta, tar))
      answer(call, null)
    },
    async remove(call) {
      const [key] = argumentsOf(call)
      await theirs(() => store.remove(key))
      answer(call, null)
    },
  })
}

/** What a method resolved to, for messages. */
const RESULT = 'its result'

/**
 * @param {'leaseStore' | 'snapshotStore'} option
 * @param {Methods} methods
 * @returns {(call: StoreCall) => void} never throws: an exception there would end the process
 */
const dispatcher = (option, methods) => call => {
  run(option, methods, call).catch(() => undefined)
}

/**
 * @param {string} option
 * @param {Methods} methods
 * @param {StoreCall} call
 */
async function run(option, methods, call) {
  const method = call.method()
  try {
    await methods[method]?.(call)
  } catch (error) {
    const name = method === 'next' ? `${option}.load() tar.next()` : `${option}.${method}()`
    refuse(call, name, error)
  }
}

/**
 * @param {StoreCall} call
 * @param {string} name
 * @param {unknown} error
 */
function refuse(call, name, error) {
  const thrown = error instanceof StoreFailure ? error.cause : error
  if (thrown instanceof SandboxError) {
    call.refuse(thrown.code, `${name}: ${thrown.message}`, error === thrown ? NO_CAUSE : keepCause(thrown))
    return
  }
  // What it says may be a secret, such as the address of a database with its password.
  const message = `${name} of the application's own store failed${kindOf(thrown)}; the cause is what it failed with.`
  call.refuse('CONFIG_INVALID', message, keepCause(thrown))
}

/** No error is kept under this number. */
const NO_CAUSE = 0

const WORD = /^[A-Za-z][\w$]{0,63}$/

/**
 * Name and code of an error, where it has words for them.
 * @param {any} error
 */
function kindOf(error) {
  try {
    const words = [error.name, error.code].filter(word => typeof word === 'string' && WORD.test(word))
    return words.length > 0 ? ` with ${words.join(' ')}` : ''
  } catch {
    // Null, undefined, or a getter that throws.
    return ''
  }
}

/**
 * Runs the application's code: whatever it does is its own failure.
 * @template T
 * @param {() => T | Promise<T>} call
 * @returns {Promise<T>}
 */
async function theirs(call) {
  try {
    return await call()
  } catch (error) {
    throw new StoreFailure('', { cause: error })
  }
}

/** @param {StoreCall} call */
const argumentsOf = call => JSON.parse(call.argumentsJson())

/**
 * @param {StoreCall} call
 * @param {unknown} value
 */
function answer(call, value) {
  call.answer(encodeStrictly(value, RESULT))
}

/** @param {unknown} value */
function checkBoolean(value) {
  if (typeof value !== 'boolean') throw invalid(RESULT, value, 'true or false')
  return value
}

/** @param {unknown} found */
function checkSnapshot(found) {
  if (typeof found !== 'object' || found === null) throw invalid(RESULT, found, 'an object with meta and tar')
  const meta = encodeStrictly(read(found, 'meta', `${RESULT}.meta`), `${RESULT}.meta`)
  const tar = read(found, 'tar', `${RESULT}.tar`)
  if (!isStream(tar)) throw invalid(`${RESULT}.tar`, tar, 'an async iterable of Uint8Array')
  return { meta, tar }
}

/**
 * One iterator over any iterable; when it is told to return, so is theirs.
 * @param {AsyncIterable<unknown> | Iterable<unknown>} tar
 */
async function* piecesOf(tar) {
  yield* tar
}

module.exports = { leaseStoreDispatch, snapshotStoreDispatch }
