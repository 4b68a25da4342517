// @ts-check
'use strict'

const { settle, unwrap } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { nonEmptyString, readOptions, string } = require('./arguments.cjs')
const { download, isStream, upload } = require('./archive-stream.cjs')
const { encodeStrictly } = require('./encode.cjs')

/**
 * @param {unknown} fence
 * @returns {number}
 */
function checkFence(fence) {
  if (typeof fence === 'number' && Number.isSafeInteger(fence) && fence >= 0) return fence
  throw invalid('expectedFence', fence, 'a whole number that is not negative')
}

/** @param {unknown} key */
const checkKey = key => nonEmptyString(key, 'The key')

/**
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {import('./options.cjs').Registry} registry
 */
function storeMakers(binding, registry) {
  /** @param {import('./native.cjs').LeaseStoreHandle} handle */
  const leases = handle => {
    const store = leaseStore(handle)
    registry.leaseStores.set(store, handle)
    return store
  }
  /** @param {import('./native.cjs').SnapshotStoreHandle} handle */
  const snapshots = handle => {
    const store = snapshotStore(handle)
    registry.snapshotStores.set(store, handle)
    return store
  }
  return {
    createMemoryLeaseStore: () => leases(unwrap(() => binding.memoryLeaseStore())),
    createMemorySnapshotStore: () => snapshots(unwrap(() => binding.memorySnapshotStore())),
    /** @param {unknown} options */
    createFileLeaseStore(options) {
      const directory = readDirectory(options, 'createFileLeaseStore')
      return leases(unwrap(() => binding.fileLeaseStore(directory)))
    },
    /** @param {unknown} options */
    createFileSnapshotStore(options) {
      const directory = readDirectory(options, 'createFileSnapshotStore')
      return snapshots(unwrap(() => binding.fileSnapshotStore(directory)))
    },
  }
}

/**
 * @param {unknown} options
 * @param {string} maker
 * @returns {string}
 */
function readDirectory(options, maker) {
  const { directory } = readOptions(options, maker, ['directory'])
  return nonEmptyString(directory, `${maker} directory`)
}

/** @param {import('./native.cjs').LeaseStoreHandle} handle */
function leaseStore(handle) {
  return {
    /** @param {unknown} key */
    async load(key) {
      const name = checkKey(key)
      const json = await settle(handle, () => handle.load(name))
      return json === null ? undefined : JSON.parse(json)
    },
    /**
     * @param {unknown} record
     * @param {unknown} expectedFence
     */
    async save(record, expectedFence) {
      const json = encodeStrictly(record, 'The lease record')
      const fence = expectedFence === null ? null : checkFence(expectedFence)
      return await settle(handle, () => handle.save(json, fence))
    },
    /**
     * @param {unknown} key
     * @param {unknown} expectedFence
     */
    async remove(key, expectedFence) {
      const name = checkKey(key)
      const fence = checkFence(expectedFence)
      return await settle(handle, () => handle.remove(name, fence))
    },
    /** @param {unknown} ownerId */
    async list(ownerId) {
      const owner = string(ownerId, 'The owner id')
      return JSON.parse(await settle(handle, () => handle.list(owner)))
    },
  }
}

/** @param {import('./native.cjs').SnapshotStoreHandle} handle */
function snapshotStore(handle) {
  return {
    /** @param {unknown} key */
    async load(key) {
      const name = checkKey(key)
      const found = await settle(handle, () => handle.load(name))
      return found === null ? undefined : { meta: JSON.parse(found.metaJson), tar: download(() => found.tar) }
    },
    /**
     * @param {unknown} key
     * @param {unknown} meta
     * @param {unknown} tar
     */
    async save(key, meta, tar) {
      const name = checkKey(key)
      const json = encodeStrictly(meta, 'The meta data of the snapshot')
      if (!isStream(tar)) throw invalid('The tar', tar, 'an async iterable of Uint8Array')
      await upload(() => handle.save(name, json), tar)
    },
    /** @param {unknown} key */
    async remove(key) {
      const name = checkKey(key)
      await settle(handle, () => handle.remove(name))
    },
  }
}

module.exports = { storeMakers }
