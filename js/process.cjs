// @ts-check
'use strict'

const { SandboxError, settle } = require('./errors.cjs')
const { copyBytes } = require('./bytes.cjs')
const { turns } = require('./turns.cjs')

/** @typedef {import('./native.cjs').ProcessHandle} ProcessHandle */
/** @typedef {import('./native.cjs').InputPipe} InputPipe */
/** @typedef {import('./abort.cjs').Heard} Heard */
/** @typedef {{ stream: string, data: Uint8Array }} Piece */

/** An error of the application's own input, which outweighs how the command then ended. @typedef {{ error?: unknown }} Fault */

/** Handles whose end somebody waits for: without another reference they would be collected, and their commands killed. */
const awaited = new Set()

/**
 * A handle that nobody has any more, neither by its stream nor by an iterator or result of it, needs its signal no more: its
 * command is killed. One in the background goes on, and its signal with it.
 */
const forgotten = new FinalizationRegistry(forget => /** @type {() => void} */ (forget)())

/**
 * Makes an object iterable, once, over what a handle brings. Leaving the loop early ends the work behind it, and waits
 * until it has ended, also while a piece is awaited.
 * @template {object} T
 * @template Item
 * @param {T} target
 * @param {ProcessHandle} native
 * @param {Heard} heard
 * @param {(piece: Piece) => Item} shape
 * @param {Fault} [fault]
 * @returns {T & AsyncIterable<Item>}
 */
function iterate(target, native, heard, shape, fault = {}) {
  const items = itemsOf(native, heard, shape, fault)
  const iterator = {
    next: () => items.next(),
    async return() {
      heard.forget()
      await settle(native, () => native.stop())
      return await items.return(undefined)
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
  Object.defineProperty(target, Symbol.asyncIterator, { value: () => iterator })
  if (!heard.isLasting) forgotten.register(native, heard.forget)
  return /** @type {T & AsyncIterable<Item>} */ (target)
}

/**
 * @template Item
 * @param {ProcessHandle} native
 * @param {Heard} heard
 * @param {(piece: Piece) => Item} shape
 * @param {Fault} fault
 * @returns {AsyncGenerator<Item, undefined>}
 */
async function* itemsOf(native, heard, shape, fault) {
  try {
    for (;;) {
      const batch = await settle(native, () => native.next())
      if ('error' in fault) throw fault.error
      if (batch === null) return
      for (const piece of batch) yield shape(piece)
    }
  } catch (error) {
    throw 'error' in fault ? fault.error : heard.explained(error)
  } finally {
    heard.forget()
  }
}

/**
 * A command whose output is read while it runs.
 * @param {ProcessHandle} native
 * @param {Heard} heard
 * @param {Fault} fault
 */
function createStream(native, heard, fault) {
  /** @type {ReturnType<typeof resultOf> | undefined} */
  let result
  const target = {
    /** Asked for at the first look, so that a stream that nobody holds can go. */
    get result() {
      if (!result) {
        result = resultOf(native, heard, fault)
        // Whoever does not await it wants to know nothing.
        result.catch(() => undefined)
      }
      return result
    },
  }
  return iterate(target, native, heard, ({ stream, data }) => ({ stream, data }), fault)
}

/**
 * How a command ended, as the interface has it.
 * @param {import('./native.cjs').NativeEnding} end
 */
function endingOf({ exitCode, signal, outcome, timedOut, durationMs }) {
  return {
    exitCode: exitCode ?? null,
    ...(signal === undefined || signal === null ? {} : { signal }),
    outcome,
    timedOut,
    durationMs,
  }
}

/**
 * @param {ProcessHandle} native
 * @param {Heard} heard
 * @param {Fault} fault
 */
async function resultOf(native, heard, fault) {
  awaited.add(native)
  try {
    const end = await settle(native, () => native.result())
    if ('error' in fault) throw fault.error
    return { ...endingOf(end), truncated: false }
  } catch (error) {
    throw 'error' in fault ? fault.error : heard.explained(error)
  } finally {
    heard.forget()
    awaited.delete(native)
  }
}

/**
 * A process in the background, with its input where that was not given beforehand.
 * @param {ProcessHandle} native
 * @param {Heard} heard
 * @param {Fault} fault
 * @param {InputPipe | undefined} pipe
 */
function createProcess(native, heard, fault, pipe) {
  const inTurn = turns()
  return Object.defineProperties(createStream(native, heard, fault), {
    write: method(async data => {
      const bytes = copyBytes(data, 'write data')
      if (!pipe) throw given()
      await settle(pipe, () => inTurn(() => pipe.write(bytes)))
    }),
    end: method(async () => {
      if (pipe) await settle(pipe, () => inTurn(() => pipe.end()))
    }),
    kill: method(async () => {
      await settle(native, () => native.stop())
      heard.forget()
    }),
  })
}

/** @param {(data: unknown) => Promise<void>} value */
const method = value => ({ value, enumerable: true })

const given = () =>
  new SandboxError(
    'RELEASED',
    'write was called on a process whose stdin was given to spawn, and ends with it. Leave stdin out to write to it.',
  )

module.exports = { createProcess, createStream, endingOf, iterate }
