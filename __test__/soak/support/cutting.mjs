// Cuts what a host sends in the middle of a frame, where the protocol's own layout says that one is (docs/protocol.md).
import { Transform } from 'node:stream'

const MAGIC = Buffer.from([0xf5, 0x5a, 0x53, 0xfb])
const HEADER = 48
const KIND_AT = 5
const LENGTH_AT = 32
/** Frames by their numbers. */
export const KINDS = {
  0x01: 'Hello',
  0x04: 'Heartbeat',
  0x06: 'Ack',
  0x10: 'ReadFile',
  0x11: 'WriteFile',
  0x12: 'List',
  0x13: 'Exec',
}
Object.assign(KINDS, { 0x20: 'Data', 0x21: 'End', 0x22: 'Credit', 0x23: 'Cancel' })

/**
 * A stream that passes everything on until `choose` names, for the kind and length of a frame, how many of its bytes still
 * go. Then `cut` is told, and nothing goes any more.
 */
export function cutting(choose, cut) {
  const state = { held: Buffer.alloc(0), left: 0, keep: undefined, over: false }
  return new Transform({
    transform(piece, _encoding, done) {
      if (!state.over) state.held = Buffer.concat([state.held, piece])
      while (step(state, part => this.push(part), choose, cut));
      done()
    },
    flush(done) {
      if (state.keep === undefined && !state.over) this.push(state.held)
      done()
    },
  })
}

/** Whether there is more to do with what is held. */
function step(state, push, choose, cut) {
  const take = count => {
    push(state.held.subarray(0, count))
    state.held = state.held.subarray(count)
  }
  if (state.over || state.held.length === 0) return false
  if (state.left > 0) {
    const count = Math.min(state.left, state.held.length)
    state.left -= count
    take(count)
    return true
  }
  const at = state.held.indexOf(MAGIC)
  // Zeros of a second attempt, and what a request has besides.
  const plain = at < 0 ? state.held.length - (MAGIC.length - 1) : at
  if (plain > 0) take(plain)
  if (at < 0 || state.held.length < HEADER) return false
  const kind = KINDS[state.held[KIND_AT]] ?? `kind ${state.held[KIND_AT]}`
  const length = HEADER + state.held.readUInt32LE(LENGTH_AT)
  state.keep ??= choose(kind, length)
  if (state.keep === undefined) state.left = length
  else if (state.held.length < state.keep) return false
  else {
    take(state.keep)
    state.over = true
    cut(kind, length, state.keep)
  }
  return true
}
