// @ts-check
'use strict'

const { SandboxError, settle, unwrap } = require('./errors.cjs')
const { invalid, quote } = require('./describe.cjs')
const { hear } = require('./abort.cjs')
const { bytesOf, isBytes } = require('./bytes.cjs')
const { isStream } = require('./archive-stream.cjs')
const { optionalNumber, path: checkPath } = require('./arguments.cjs')
const { keeping } = require('./lifetimes.cjs')
const { iterate } = require('./process.cjs')
const { readingOf } = require('./source.cjs')

/** @typedef {import('./native.cjs').NativeBinding} NativeBinding */
/** @typedef {import('./native.cjs').SessionHandle} SessionHandle */
/** @typedef {import('./source.cjs').Source} Source */

/**
 * A file as an async iterable, to be read once.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {unknown} given
 * @param {{ offset?: unknown, limit?: unknown, signal?: unknown }} options
 */
async function readFileStream(binding, handle, given, { offset, limit, signal }) {
  const path = checkPath(given)
  const from = optionalNumber(offset, 'readFileStream offset')
  const most = optionalNumber(limit, 'readFileStream limit')
  const heard = hear(binding, signal, `Reading ${quote(path)}`)
  try {
    const file = await settle(handle, () => handle.readFileStream(path, from, most, heard.token))
    const stream = { path: file.path, size: file.size, mode: file.mode }
    return iterate(stream, keeping(file.contents, handle), heard, piece => piece.data)
  } catch (error) {
    heard.forget()
    throw heard.explained(error)
  }
}

/**
 * Writes a file from an iterable of pieces, whole or not at all.
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {unknown} given
 * @param {unknown} contents
 * @param {{ mode?: unknown, signal?: unknown }} options
 */
async function writeFileStream(binding, handle, given, contents, { mode, signal }) {
  const path = checkPath(given)
  const bits = optionalNumber(mode, 'writeFileStream mode')
  if (!isStream(contents)) {
    throw invalid('The contents for writeFileStream', contents, 'an async iterable of Uint8Array')
  }
  return await readingOf(contents, 'the contents for writeFileStream', source =>
    write(binding, handle, path, { bits, source, signal }),
  )
}

/**
 * @param {NativeBinding} binding
 * @param {SessionHandle} handle
 * @param {string} path
 * @param {{ bits: number | undefined, source: Source, signal: unknown }} file
 */
async function write(binding, handle, path, { bits, source, signal }) {
  const heard = hear(binding, signal, `Writing ${quote(path)}`)
  const token = heard.token ?? new binding.CancelToken()
  try {
    const upload = unwrap(() => handle.writeFileStream(path, bits, token))
    const size = await send(keeping(upload.contents, handle), source, token)
    return { path: upload.path, size }
  } catch (error) {
    throw heard.explained(error)
  } finally {
    heard.forget()
  }
}

/**
 * Sends all pieces; resolves to their size when the file is in its place.
 * @param {import('./native.cjs').ArchiveUpload} sink
 * @param {Source} source
 * @param {import('./native.cjs').CancelToken} token
 */
async function send(sink, source, token) {
  const closed = settle(sink, () => sink.closed())
  // It is awaited below; before that nobody needs to know.
  closed.catch(() => undefined)
  let size = 0
  const write = async (/** @type {unknown} */ piece) => {
    if (!isBytes(piece)) throw invalid('A piece for writeFileStream', piece, 'a Uint8Array')
    const bytes = bytesOf(piece, 'A piece for writeFileStream')
    if (bytes.length > 0 && !unwrap(() => sink.push(bytes))) await settle(sink, () => sink.room())
    size += bytes.length
  }
  try {
    const whole = await pull(source, write, closed)
    if (whole) await settle(sink, () => sink.finish())
    else await closed
  } catch (error) {
    // Without this, half a file would look like one that is slow to come. The old one is as it was when it has ended.
    token.cancel()
    await closed.catch(() => undefined)
    throw error
  }
  return size
}

/**
 * Feeds a command's standard input from the application's iterable, and ends it. An error of the iterable's own is thrown;
 * that the command has ended or does not read any more is none.
 * @param {import('./native.cjs').InputPipe} pipe
 * @param {Source} source
 * @param {Promise<unknown>} ended settles when the command has ended
 */
async function feed(pipe, source, ended) {
  const unread = Symbol('unread')
  const write = async (/** @type {unknown} */ piece) => {
    const bytes = bytesOf(piece, 'A piece of stdin')
    if (bytes.length === 0) return
    await settle(pipe, () => pipe.write(bytes)).catch(error => {
      throw error instanceof SandboxError && error.code === 'RELEASED' ? unread : error
    })
  }
  try {
    if (await pull(source, write, ended)) await settle(pipe, () => pipe.end())
  } catch (error) {
    if (error !== unread) throw error
  }
}

/** What is awaited besides the next step has settled first. */
const OVER = Symbol('over')

/**
 * Takes the pieces of an iterable one after another, each once `write` took the one before. Leaves it, as a loop would,
 * when `over` settles first, also while the next piece is awaited.
 * @param {Source} source
 * @param {(piece: unknown) => Promise<void>} write
 * @param {Promise<unknown>} over
 * @returns {Promise<boolean>} true at the end of the iterable
 */
async function pull(source, write, over) {
  // One listener on `over` for all pieces: one for each would be kept until it settles.
  let isOver = false
  let wake = () => {}
  const stop = () => {
    isOver = true
    wake()
  }
  // Before anything of the application's runs, which may throw, or end what this waits for.
  over.then(stop, stop)
  try {
    for (;;) {
      /** @type {Awaited<ReturnType<Source['next']>> | typeof OVER} */
      const step = await new Promise((resolve, reject) => {
        if (isOver) return resolve(OVER)
        wake = () => resolve(OVER)
        source.next().then(resolve, reject)
      })
      if (step === OVER) return false
      if (step.done) return true
      await write(step.value)
    }
  } finally {
    source.leave()
  }
}

module.exports = { feed, readFileStream, writeFileStream }
