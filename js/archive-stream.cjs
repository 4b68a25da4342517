// @ts-check
'use strict'

const { settle, unwrap } = require('./errors.cjs')
const { invalid } = require('./describe.cjs')
const { bytesOf, isBytes } = require('./bytes.cjs')
const { readingOf } = require('./source.cjs')
const { turns } = require('./turns.cjs')

/** @typedef {import('./native.cjs').ArchiveUpload} ArchiveUpload */

/**
 * An iterable, async or not, of pieces of an archive; the archive itself as bytes or text is none.
 * @param {any} value
 * @returns {value is AsyncIterable<unknown> | Iterable<unknown>}
 */
function isStream(value) {
  if (typeof value !== 'object' || value === null || isBytes(value)) return false
  try {
    return typeof value[Symbol.asyncIterator] === 'function' || typeof value[Symbol.iterator] === 'function'
  } catch {
    // A getter or a proxy: what cannot be looked at is none.
    return false
  }
}

/**
 * Sends an archive piece by piece; the next piece is asked for when the engine took the one before.
 * @param {() => ArchiveUpload | import('./native.cjs').Failure} begin
 * @param {AsyncIterable<unknown> | Iterable<unknown>} iterable
 */
const upload = (begin, iterable) => readingOf(iterable, 'the archive', async source => sendAll(unwrap(begin), source))

/**
 * @param {ArchiveUpload} sink
 * @param {import('./source.cjs').Source} source
 */
async function sendAll(sink, source) {
  try {
    for (;;) {
      const { done, value: piece } = await source.next()
      if (done) break
      if (!isBytes(piece)) throw invalid('A piece of the archive', piece, 'a Uint8Array')
      const bytes = bytesOf(piece, 'A piece of the archive')
      if (bytes.length > 0 && !unwrap(() => sink.push(bytes))) await settle(sink, () => sink.room())
    }
    await settle(sink, () => sink.finish())
  } catch (error) {
    // Without this, half an archive would look to the engine like one that is slow to come.
    sink.abort()
    throw error
  }
}

/**
 * An archive as an async iterable, to be read once. The transfer starts with the first `next`; each gives the piece behind
 * that of the one before, awaited or not. Leaving the loop early ends it, also while a piece is awaited.
 * @param {() => import('./native.cjs').ArchiveDownload | import('./native.cjs').Failure} open
 * @returns {AsyncIterableIterator<Uint8Array>}
 */
function download(open) {
  /** @type {import('./native.cjs').ArchiveDownload | undefined} */
  let source
  let done = false
  const inTurn = turns()
  const end = () => {
    done = true
    source?.cancel()
    source = undefined
    return { value: undefined, done: /** @type {const} */ (true) }
  }
  const read = async () => {
    if (done) return end()
    try {
      source ??= unwrap(open)
      const from = source
      const value = await settle(from, () => from.next())
      return done || value === null ? end() : { value, done: /** @type {const} */ (false) }
    } catch (error) {
      end()
      throw error
    }
  }
  return {
    next: () => (done ? read() : inTurn(read)),
    async return() {
      return end()
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

module.exports = { download, isStream, upload }
