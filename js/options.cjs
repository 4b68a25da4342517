// @ts-check
'use strict'

const { SandboxError, unwrap } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { isPlainObject, read, unreadable } = require('./arguments.cjs')
const { encodeOptions } = require('./encode.cjs')
const { readListener } = require('./events.cjs')
const { belongings } = require('./lifetimes.cjs')
const { CLIENT_METHODS, OPTIONAL_METHODS, clientDispatch } = require('./own-client.cjs')
const { resolverDispatch } = require('./own-resolver.cjs')
const { leaseStoreDispatch, snapshotStoreDispatch } = require('./own-stores.cjs')

/** @typedef {import('./native.cjs').DockerHandle} DockerHandle */
/** @typedef {import('./native.cjs').LeaseStoreHandle} LeaseStoreHandle */
/** @typedef {import('./native.cjs').SnapshotStoreHandle} SnapshotStoreHandle */
/** @typedef {import('./native.cjs').SessionHandle} SessionHandle */

/**
 * The native handles behind the objects that we gave out. A copy of such an object, perhaps with a method of the
 * application's own, is not in here, and rightly not taken for ours.
 * @typedef {{
 *   clients: WeakMap<object, DockerHandle>,
 *   leaseStores: WeakMap<object, LeaseStoreHandle>,
 *   snapshotStores: WeakMap<object, SnapshotStoreHandle>,
 *   sessions: WeakMap<object, import('./session.cjs').Operations>
 * }} Registry
 */

/** @returns {Registry} */
const createRegistry = () => ({
  clients: new WeakMap(),
  leaseStores: new WeakMap(),
  snapshotStores: new WeakMap(),
  sessions: new WeakMap(),
})

const LEASE_STORE_METHODS = ['load', 'save', 'remove', 'list']
const SNAPSHOT_STORE_METHODS = ['load', 'save', 'remove']

/** Options that are objects of ours or the application's, and so never become JSON. */
const OBJECT_OPTIONS = ['client', 'leaseStore', 'snapshotStore', 'onEvent', 'resolveHost']

/**
 * What `prepareEnvironment` of the native part is called with, and `keptBy`, which ties what of it is the application's to
 * the handles that need it.
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {unknown} options the user's, unchecked
 * @param {Registry} registry
 */
function readEnvironmentOptions(binding, options, registry) {
  const { objects, rest } = split(options)
  const { weakly, keptBy } = belongings()
  return {
    ...encodeOptions(rest),
    keptBy,
    hear: readListener(objects.onEvent, weakly),
    resolver: readResolver(binding, objects.resolveHost, weakly),
    docker: ours(objects.client, 'client', registry.clients, CLIENT_METHODS, 'createNodeDockerClient()', client =>
      ownClient(binding, client, weakly),
    ),
    leases: ours(
      objects.leaseStore,
      'leaseStore',
      registry.leaseStores,
      LEASE_STORE_METHODS,
      'createMemoryLeaseStore()',
      store => unwrap(() => binding.jsLeaseStore(leaseStoreDispatch(weakly(store)))),
    ),
    snapshots: ours(
      objects.snapshotStore,
      'snapshotStore',
      registry.snapshotStores,
      SNAPSHOT_STORE_METHODS,
      'createMemorySnapshotStore()',
      store => unwrap(() => binding.jsSnapshotStore(snapshotStoreDispatch(weakly(store)))),
    ),
  }
}

/** @param {unknown} options */
function split(options) {
  /** @type {Record<string, unknown>} */
  const objects = {}
  /** @type {Record<string, unknown>} */
  const rest = Object.create(null)
  let keys
  try {
    if (!isPlainObject(options))
      throw invalid('The options of createDockerSandboxEnvironment', options, 'a plain object')
    keys = Object.keys(options)
  } catch (error) {
    throw error instanceof SandboxError ? error : unreadable('The options of createDockerSandboxEnvironment', error)
  }
  for (const key of keys) {
    const value = read(options, key, `Option ${key}`)
    if (value !== undefined) (OBJECT_OPTIONS.includes(key) ? objects : rest)[key] = value
  }
  return { objects, rest }
}

/**
 * The handle behind an object of ours, or a new one for an object of the application's own. That is not kept: the native
 * part of the environment keeps what it needs of it.
 * @template {object} Handle
 * @param {unknown} value
 * @param {string} name of the option
 * @param {WeakMap<object, Handle>} known
 * @param {string[]} methods
 * @param {string} maker for messages: what makes one of ours
 * @param {(value: object) => Handle} wrap
 * @returns {Handle | undefined}
 */
function ours(value, name, known, methods, maker, wrap) {
  if (value === undefined) return undefined
  if (typeof value !== 'object' || value === null)
    throw invalid(`Option ${name}`, value, `an object like that of ${maker}`)
  const handle = known.get(value)
  if (handle) return handle
  for (const method of methods) {
    const member = read(value, method, `Option ${name}.${method}`)
    if (typeof member !== 'function') throw invalid(`Option ${name}.${method}`, member, 'a method')
  }
  return wrap(value)
}

/**
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {unknown} resolve
 * @param {import('./lifetimes.cjs').Weakly} weakly
 */
function readResolver(binding, resolve, weakly) {
  if (resolve === undefined) return undefined
  if (typeof resolve !== 'function') throw invalid('Option resolveHost', resolve, 'a function')
  return unwrap(() => binding.jsResolver(resolverDispatch(weakly(/** @type {any} */ (resolve)))))
}

/**
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {object} client
 * @param {import('./lifetimes.cjs').Weakly} weakly
 */
function ownClient(binding, client, weakly) {
  const kind = read(client, 'kind', 'Option client.kind')
  if (kind !== 'node' && kind !== 'memory') throw invalid('Option client.kind', kind, '"node" or "memory"')
  const optional = OPTIONAL_METHODS.filter(method => {
    const member = read(client, method, `Option client.${method}`)
    if (member !== undefined && typeof member !== 'function') {
      throw invalid(`Option client.${method}`, member, 'a method, or absent')
    }
    return member !== undefined
  })
  return unwrap(() => binding.jsDockerClient(clientDispatch(weakly(client)), kind === 'memory', optional))
}

module.exports = { createRegistry, readEnvironmentOptions }
