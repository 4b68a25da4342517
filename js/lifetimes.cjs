// @ts-check
'use strict'

/**
 * How long objects of the application's own live: its stores, its client, its resolver, its listener.
 *
 * The native part holds what it calls as a root of the collector, until the last handle of the environment is collected.
 * An object of the application's own that refers to its environment, be it by a closure, would keep that handle alive, and
 * with it itself, for ever. So the native part gets functions that hold such an object weakly. It is held by what may still
 * call it: the handles of its environment, and each of their calls until it has settled, which may be all that is left.
 *
 * A session that was not released, and that nobody can reach any more, goes on holding its run while its lease store can be
 * reached otherwise. Where that goes with it, the run falls silent, as that of a process that died.
 */

/** @type {WeakMap<object, readonly object[]>} */
const owners = new WeakMap()

/** Where a call under way holds what its handle does. @typedef {{ objects: readonly object[] }} Place */

/** @type {Set<Place>} */
const underWay = new Set()

/** @typedef {<T extends object>(object: T) => WeakRef<T>} Weakly */

/** Collects the objects that one environment is made with. */
function belongings() {
  /** @type {object[]} */
  const objects = []
  return {
    /**
     * What the native part may reach an object by.
     * @template {object} T
     * @param {T} object
     */
    weakly(object) {
      objects.push(object)
      return new WeakRef(object)
    },
    /**
     * They live as long as this handle.
     * @param {object} handle
     */
    keptBy(handle) {
      if (objects.length > 0) owners.set(handle, objects)
    },
  }
}

/**
 * A handle that came of another one keeps what that does.
 * @template {object} T
 * @param {T} handle
 * @param {object} origin
 * @returns {T}
 */
function keeping(handle, origin) {
  const objects = owners.get(origin)
  if (objects) owners.set(handle, objects)
  return handle
}

/**
 * A call of a handle begins.
 * @param {object} handle
 * @returns {Place | undefined} what is to be let go when it has ended; nothing where there is nothing to hold
 */
function hold(handle) {
  const objects = owners.get(handle)
  if (!objects) return undefined
  const place = { objects }
  underWay.add(place)
  return place
}

/** @param {Place | undefined} place */
function letGo(place) {
  if (place) underWay.delete(place)
}

module.exports = { belongings, hold, keeping, letGo }
