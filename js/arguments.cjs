// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')
const { describe, invalid } = require('./describe.cjs')

/**
 * Reads a member of an object that may have getters or be a proxy: what they throw becomes a named error.
 * @param {object} object
 * @param {string} key
 * @param {string} name the member's path, for messages
 * @returns {unknown}
 */
function read(object, key, name) {
  try {
    return /** @type {any} */ (object)[key]
  } catch (error) {
    throw unreadable(name, error)
  }
}

/**
 * @param {string} name
 * @param {unknown} error
 */
function unreadable(name, error) {
  return new SandboxError('CONFIG_INVALID', `${name} cannot be read: looking at it threw an error.`, { cause: error })
}

/**
 * Plain: made by `{}`, `Object.create(null)` or `JSON.parse`, here or in another realm; no class instance.
 * @param {unknown} value
 * @returns {value is object}
 */
function isPlainObject(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/**
 * Reads the options of one call, each once. Unknown ones are refused: a misspelt limit must not be no limit.
 * @param {unknown} options
 * @param {string} what the function's name
 * @param {readonly string[]} keys all that it knows
 * @returns {Record<string, unknown>} without the keys whose value is `undefined`
 */
function readOptions(options, what, keys) {
  /** @type {Record<string, unknown>} */
  const known = Object.create(null)
  if (options === undefined) return known
  let names
  try {
    if (!isPlainObject(options)) throw invalid(`The options of ${what}`, options, 'a plain object')
    names = Object.keys(options)
  } catch (error) {
    throw error instanceof SandboxError ? error : unreadable(`The options of ${what}`, error)
  }
  for (const key of names) {
    if (!keys.includes(key)) {
      throw new SandboxError(
        'CONFIG_INVALID',
        `${what} has no option ${JSON.stringify(key)}; it has ${keys.join(', ')}.`,
      )
    }
    const value = read(options, key, `${what} ${key}`)
    if (value !== undefined) known[key] = value
  }
  return known
}

/**
 * A string that UTF-8 can express; a lone surrogate would silently become another name.
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
function string(value, name) {
  if (typeof value !== 'string') throw invalid(name, value, 'a string')
  if (!value.isWellFormed()) {
    throw new SandboxError('CONFIG_INVALID', `${name} holds half of a surrogate pair; it must be valid Unicode.`)
  }
  return value
}

/**
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
function nonEmptyString(value, name) {
  if (value === '') throw invalid(name, value, 'a non-empty string')
  return string(value, name)
}

/**
 * A path of the workspace; its rules are checked by the native part.
 * @param {unknown} value
 * @returns {string}
 */
function path(value) {
  if (typeof value === 'string' && value.isWellFormed()) return value
  const was = typeof value === 'string' ? 'no valid Unicode' : describe(value)
  throw new SandboxError('PATH_INVALID', `The path was ${was}; it must be a string such as "src/main.ts".`)
}

/**
 * A number of any size, or nothing; the native part knows the range.
 * @param {unknown} value
 * @param {string} name
 * @returns {number | undefined}
 */
function optionalNumber(value, name) {
  if (value !== undefined && typeof value !== 'number') throw invalid(name, value, 'a number')
  return value
}

/**
 * @param {unknown} value
 * @param {string} name
 * @returns {string[]}
 */
function strings(value, name) {
  if (!Array.isArray(value)) throw invalid(name, value, 'an array of strings')
  try {
    return Array.from(value, (item, index) => string(item, `${name}[${index}]`))
  } catch (error) {
    throw error instanceof SandboxError ? error : unreadable(name, error)
  }
}

module.exports = {
  isPlainObject,
  nonEmptyString,
  optionalNumber,
  path,
  read,
  readOptions,
  string,
  strings,
  unreadable,
}
