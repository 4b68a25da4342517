// @ts-check
'use strict'

const { SandboxError, settle, unwrap } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { nonEmptyString, string } = require('./arguments.cjs')
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
  return {
    createMemoryLeaseStore() {
      const handle = unwrap(() => binding.memoryLeaseStore())
      const store = leaseStore(handle)
      registry.leaseStores.set(store, handle)
      return store
    },
    createMemorySnapshotStore() {
      const handle = unwrap(() => binding.memorySnapshotStore())
      const store = snapshotStore(handle)
      registry.snapshotStores.set(store, handle)
      return store
    },
    createFileLeaseStore: () => noFileStore('createFileLeaseStore'),
    createFileSnapshotStore: () => noFileStore('createFileSnapshotStore'),
  }
}

/** @param {import('./native.cjs').LeaseStoreHandle} handle */
function leaseStore(handle) {
  return {
    /** @param {unknown} key */
    async load(key) {
      const name = checkKey(key)
      const json = await settle(() => handle.load(name))
      return json === null ? undefined : JSON.parse(json)
    },
    /**
     * @param {unknown} record
     * @param {unknown} expectedFence
     */
    async save(record, expectedFence) {
      const json = encodeStrictly(record, 'The lease record')
      const fence = expectedFence === null ? null : checkFence(expectedFence)
      return await settle(() => handle.save(json, fence))
    },
    /**
     * @param {unknown} key
     * @param {unknown} expectedFence
     */
    async remove(key, expectedFence) {
      const name = checkKey(key)
      const fence = checkFence(expectedFence)
      return await settle(() => handle.remove(name, fence))
    },
    /** @param {unknown} ownerId */
    async list(ownerId) {
      const owner = string(ownerId, 'The owner id')
      return JSON.parse(await settle(() => handle.list(owner)))
    },
  }
}

/** @param {import('./native.cjs').SnapshotStoreHandle} handle */
function snapshotStore(handle) {
  /** @param {string} method */
  const notYet = method => async () => {
    const what = `${method}() of a memory snapshot store`
    throw new SandboxError('UNSUPPORTED', `${what} cannot be called by the application yet; environments can use it.`)
  }
  return {
    load: notYet('load'),
    save: notYet('save'),
    /** @param {unknown} key */
    async remove(key) {
      const name = checkKey(key)
      await settle(() => handle.remove(name))
    },
  }
}

/**
 * @param {string} name
 * @returns {never}
 */
function noFileStore(name) {
  throw new SandboxError(
    'UNSUPPORTED',
    `${name}() is declared but this version has no file stores; use a memory store.`,
  )
}

module.exports = { storeMakers }
