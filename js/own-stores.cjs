// @ts-check
'use strict'

const { types } = require('node:util')
const { invalid } = require('./describe.cjs')
const { read } = require('./arguments.cjs')
const { download, isStream } = require('./archive-stream.cjs')
const { bytesOf } = require('./bytes.cjs')
const { encodeStrictly } = require('./encode.cjs')
const { RESULT, answer, argumentsOf, dispatcher, theirs } = require('./own-calls.cjs')
const { sourceOf } = require('./source.cjs')

/** @typedef {import('./own-calls.cjs').Side} Side */
/** @typedef {import('./own-calls.cjs').Methods} Methods */

/** @type {Side} */
const LEASES = { option: 'leaseStore', what: 'store', codeOf: () => 'CONFIG_INVALID' }
/** @type {Side} */
const SNAPSHOTS = {
  ...LEASES,
  option: 'snapshotStore',
  ongoing: ['next', 'return'],
  nameOf: method => (method === 'next' ? 'snapshotStore.load() tar.next()' : `snapshotStore.${method}()`),
}

/** @type {Methods} */
const LEASE_METHODS = {
  async load(store, call) {
    const [key] = argumentsOf(call)
    answer(call, (await theirs(() => store.load(key))) ?? null)
  },
  async save(store, call) {
    const [record, expectedFence] = argumentsOf(call)
    const saved = checkBoolean(await theirs(() => store.save(record, expectedFence)))
    const heard = answer(call, saved)
    // The acquire has failed of this save, which came too late, and its container is gone: the run must not seem held. No
    // other lease of the run has this fence.
    if (saved && !heard && expectedFence === null) await theirs(() => store.remove(record.key, record.fence))
  },
  async remove(store, call) {
    const [key, expectedFence] = argumentsOf(call)
    answer(call, checkBoolean(await theirs(() => store.remove(key, expectedFence))))
  },
  async list(store, call) {
    const [ownerId] = argumentsOf(call)
    const records = await theirs(() => store.list(ownerId))
    if (!Array.isArray(records)) throw invalid(RESULT, records, 'an array of records')
    answer(call, records)
  },
}

/**
 * `next` and `return` are of the tar that a `load` gave; what is read of it is asked for piece by piece.
 * @returns {Methods}
 */
function snapshotMethods() {
  /**
   * Each is held until the native part says that nobody reads it any more, which it always does: a tar may have a file to
   * close.
   * @type {Map<number, import('./source.cjs').Source>}
   */
  const tars = new Map()
  /** @param {number} stream */
  const close = stream => {
    const tar = tars.get(stream)
    tars.delete(stream)
    tar?.leave()
  }
  return {
    async load(store, call) {
      const [key] = argumentsOf(call)
      const found = (await theirs(() => store.load(key))) ?? null
      if (found === null) return void answer(call, null)
      const { meta, tar } = readSnapshot(found)
      tars.set(call.stream(), tar)
      if (!call.answer(meta)) close(call.stream())
    },
    async next(_store, call) {
      const tar = tars.get(call.stream())
      if (tar === undefined) return void call.answerPiece(null)
      const { value, done } = await theirs(() => tar.next())
      if (done) {
        tars.delete(call.stream())
        return void call.answerPiece(null)
      }
      if (!types.isUint8Array(value)) throw invalid('A piece of the tar', value, 'a Uint8Array')
      call.answerPiece(bytesOf(value, 'A piece of the tar'))
    },
    async return(_store, call) {
      close(call.stream())
    },
    async save(store, call) {
      const [key, meta] = argumentsOf(call)
      const tar = download(() => /** @type {import('./native.cjs').ArchiveDownload} */ (call.tar()))
      await theirs(() => store.save(key, meta, tar))
      answer(call, null)
    },
    async remove(store, call) {
      const [key] = argumentsOf(call)
      await theirs(() => store.remove(key))
      answer(call, null)
    },
  }
}

/**
 * What the native part calls a lease store of the application's own through.
 * @param {WeakRef<object>} store its methods were looked at; they are called as methods, since applications write classes
 */
const leaseStoreDispatch = store => dispatcher(LEASES, store, LEASE_METHODS)

/**
 * The same for a snapshot store.
 * @param {WeakRef<object>} store
 */
const snapshotStoreDispatch = store => dispatcher(SNAPSHOTS, store, snapshotMethods())

/** @param {unknown} value */
function checkBoolean(value) {
  if (typeof value !== 'boolean') throw invalid(RESULT, value, 'true or false')
  return value
}

/** @param {unknown} found */
function readSnapshot(found) {
  if (typeof found !== 'object' || found === null) throw invalid(RESULT, found, 'an object with meta and tar')
  const tar = read(found, 'tar', `${RESULT}.tar`)
  const source = isStream(tar) ? sourceOf(tar, 'the tar') : undefined
  try {
    const meta = encodeStrictly(read(found, 'meta', `${RESULT}.meta`), `${RESULT}.meta`)
    if (!source) throw invalid(`${RESULT}.tar`, tar, 'an async iterable of Uint8Array')
    return { meta, tar: source }
  } catch (error) {
    source?.leave()
    throw error
  }
}

module.exports = { leaseStoreDispatch, snapshotStoreDispatch }
