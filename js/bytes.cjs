// @ts-check
'use strict'

const { types } = require('node:util')
const { SandboxError } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')

const encoder = new TextEncoder()

/**
 * True for what `copyBytes` takes besides a string.
 * @param {unknown} value
 * @returns {value is ArrayBufferView | ArrayBufferLike}
 */
function isBytes(value) {
  // `instanceof` would ask a proxy for its prototype, and not know buffers of other realms.
  return ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)
}

/**
 * A private copy of the caller's bytes as they are now: what the caller does to its buffer afterwards changes nothing.
 * A string becomes UTF-8; views of any kind, `ArrayBuffer` and `SharedArrayBuffer` give their bytes.
 * @param {unknown} value
 * @param {string} name for messages
 * @returns {Uint8Array}
 */
function copyBytes(value, name) {
  if (typeof value === 'string') return encoder.encode(value)
  if (!isBytes(value)) throw invalid(name, value, 'a string or a Uint8Array')
  try {
    return copyView(value)
  } catch (error) {
    const why = 'its memory is gone: the buffer was transferred or detached before the call'
    throw new SandboxError('CONFIG_INVALID', `${name} cannot be read, ${why}. Pass a buffer that is still yours.`, {
      cause: error,
    })
  }
}

/** @param {ArrayBufferView | ArrayBufferLike} value */
function copyView(value) {
  // Making the view throws for a detached buffer, where its length alone would read as an empty file.
  const view = ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value)
  const copy = new Uint8Array(view.length)
  copy.set(view)
  return copy
}

module.exports = { copyBytes, isBytes }
