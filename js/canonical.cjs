// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')

/**
 * The text whose SHA-256 is a manifest's fingerprint: JSON without white space, keys in the order of this process's
 * locale, keys with the value `undefined` left out. The agent runtime computes the same in this process, so the order
 * has to come from here: a byte sort differs from it, and locales differ from each other.
 * @param {unknown} value
 * @returns {string}
 */
function canonical(value) {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new SandboxError('INTERNAL', `A manifest holds ${value}, which JSON cannot express. Please report this.`)
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([left], [right]) => left.localeCompare(right))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`)
  return `{${members.join(',')}}`
}

/**
 * Freezes a JSON value in all its parts.
 * @template T
 * @param {T} value
 * @returns {T}
 */
function deepFreeze(value) {
  if (typeof value === 'object' && value !== null) {
    Object.values(value).forEach(deepFreeze)
    Object.freeze(value)
  }
  return value
}

module.exports = { canonical, deepFreeze }
