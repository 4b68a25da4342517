// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')
const { describe } = require('./describe.cjs')
const { copyBytes, isBytes } = require('./bytes.cjs')
const { isPlainObject, read, unreadable } = require('./arguments.cjs')

/** Deepest nesting of options; none of ours is deeper than 4, so this only stops a proxy that goes on for ever. */
const MAX_DEPTH = 32

/** Most items of one list, the number of entries that one archive may have: an empty array can claim 2³² of them. */
const MAX_ITEMS = 100_000

const FILE_CONTENTS = /^workspace\.files\[\d+\]\.contents$/

/**
 * Where an encoding is: the objects around the value, to notice cycles, and the bytes met so far.
 * @typedef {{ blobs: Uint8Array[], parents: object[], refuse: boolean }} Context
 */

/**
 * The options of an environment as JSON text. File contents go beside it, as `{"$blob": index}`; what JSON cannot hold
 * becomes `{"$invalid": description}`, for the native part to refuse by the option's name with what it may be.
 * @param {Record<string, unknown>} options
 * @returns {{ json: string, blobs: Uint8Array[] }}
 */
function encodeOptions(options) {
  /** @type {Context} */
  const context = { blobs: [], parents: [], refuse: false }
  const encoded = encode(options, '', context)
  return { json: JSON.stringify(encoded), blobs: context.blobs }
}

/**
 * A value as JSON text, or a `CONFIG_INVALID` that names what JSON cannot hold.
 * @param {unknown} value
 * @param {string} name
 * @returns {string}
 */
function encodeStrictly(value, name) {
  return JSON.stringify(encode(value, name, { blobs: [], parents: [], refuse: true }))
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {Context} context
 * @returns {unknown}
 */
function encode(value, name, context) {
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : unfit(value, name, context)
  if (FILE_CONTENTS.test(name) && (typeof value === 'string' || isBytes(value))) {
    return { $blob: context.blobs.push(copyBytes(value, name)) - 1 }
  }
  if (typeof value === 'string') return value.isWellFormed() ? value : unfit(value, name, context, 'invalid Unicode')
  if (typeof value !== 'object') return unfit(value, name, context)
  if (context.parents.includes(value)) return unfit(value, name, context, 'a reference to an object around it')
  if (context.parents.length >= MAX_DEPTH) return unfit(value, name, context, 'nested too deeply')
  context.parents.push(value)
  const encoded = encodeMembers(value, name, context)
  context.parents.pop()
  return encoded
}

/**
 * @param {object} value
 * @param {string} name
 * @param {Context} context
 */
function encodeMembers(value, name, context) {
  let keys
  try {
    if (Array.isArray(value)) {
      if (value.length > MAX_ITEMS) return unfit(value, name, context, `an array of ${value.length} items`)
      return Array.from(value, (item, index) => encode(item, `${name}[${index}]`, context))
    }
    if (!isPlainObject(value)) return unfit(value, name, context)
    keys = Object.keys(value)
  } catch (error) {
    throw error instanceof SandboxError ? error : unreadable(title(name), error)
  }
  // Without a prototype, so that a key "__proto__" stays a key, for the native part to refuse.
  const encoded = Object.create(null)
  for (const key of keys) {
    // Our own marks, and keys that no encoder can carry, are nobody's option.
    if (key === '$blob' || key === '$invalid' || !key.isWellFormed()) {
      return unfit(value, name, context, `an object with the key ${JSON.stringify(key)}`)
    }
    const path = name === '' ? key : `${name}.${key}`
    const member = read(value, key, title(path))
    if (member !== undefined) encoded[key] = encode(member, path, context)
  }
  return encoded
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {Context} context
 * @param {string} [shown]
 */
function unfit(value, name, context, shown = describe(value)) {
  if (!context.refuse) return { $invalid: shown }
  throw new SandboxError('CONFIG_INVALID', `${name} was ${shown}; JSON must be able to express it.`)
}

/** @param {string} name */
const title = name => (name === '' ? 'The options' : `Option ${name}`)

module.exports = { encodeOptions, encodeStrictly }
