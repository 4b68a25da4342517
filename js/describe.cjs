// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')

/**
 * How a value is named in a message. Strings and contents are never shown: they may be secrets.
 * @param {unknown} value
 * @returns {string}
 */
function describe(value) {
  if (value === null || value === undefined) return String(value)
  if (typeof value === 'number' || typeof value === 'boolean') return Object.is(value, -0) ? '-0' : String(value)
  if (typeof value === 'object') return describeObject(value)
  if (typeof value === 'string') return value === '' ? 'an empty string' : `a string of ${value.length} characters`
  return `a ${typeof value}`
}

/** @param {object} value */
function describeObject(value) {
  try {
    if (Array.isArray(value)) return 'an array'
    const name = Object.getPrototypeOf(value)?.constructor?.name
    return typeof name === 'string' && name !== '' && name !== 'Object' ? `an object of class ${name}` : 'an object'
  } catch {
    // A revoked proxy, or one whose traps throw.
    return 'an object that cannot be read'
  }
}

/**
 * The error for a wrong option or argument.
 * @param {string} name the option's path, for example `workspace.id`
 * @param {unknown} value what it was
 * @param {string} expected what it may be
 * @returns {InstanceType<typeof import('./errors.cjs').SandboxError>}
 */
function invalid(name, value, expected) {
  return new SandboxError('CONFIG_INVALID', `${name} was ${describe(value)}; it must be ${expected}.`)
}

/** Longest name shown in a message, in UTF-16 units. */
const SHOWN = 120

/**
 * A path, id or command for a message: in quotes, control characters escaped, shortened.
 * @param {string} text
 * @returns {string}
 */
const quote = text => (text.length > SHOWN ? `${JSON.stringify(text.slice(0, SHOWN))}…` : JSON.stringify(text))

module.exports = { describe, invalid, quote }
