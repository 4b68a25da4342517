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
  return typeof value === 'string' ? encoder.encode(value) : read(value, name, copyOf)
}

/**
 * As `copyBytes`, without a copy of memory that only this thread can write to: for a call that copies before it returns.
 * @param {unknown} value
 * @param {string} name for messages
 * @returns {Uint8Array}
 */
function bytesOf(value, name) {
  return typeof value === 'string' ? encoder.encode(value) : read(value, name, ownView)
}

/**
 * @param {unknown} value
 * @param {string} name
 * @param {(value: ArrayBufferView | ArrayBufferLike) => Uint8Array} take
 */
function read(value, name, take) {
  if (!isBytes(value)) throw invalid(name, value, 'a string or a Uint8Array')
  try {
    return take(value)
  } catch (error) {
    const why = 'its memory is gone: the buffer was transferred or detached before the call'
    throw new SandboxError('CONFIG_INVALID', `${name} cannot be read, ${why}. Pass a buffer that is still yours.`, {
      cause: error,
    })
  }
}

/** @param {ArrayBufferView | ArrayBufferLike} value */
function ownView(value) {
  const view = viewOf(value)
  return types.isSharedArrayBuffer(view.buffer) ? copyOf(view) : view
}

/** @param {ArrayBufferView | ArrayBufferLike} value */
function copyOf(value) {
  const view = viewOf(value)
  const copy = new Uint8Array(view.length)
  copy.set(view)
  return copy
}

/** @param {ArrayBufferView | ArrayBufferLike} value */
function viewOf(value) {
  // Making the view throws for a detached buffer, where its length alone would read as an empty file.
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value)
}

module.exports = { bytesOf, copyBytes, isBytes }
