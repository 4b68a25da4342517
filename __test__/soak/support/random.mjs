// Randomness that can be had again: `SANDBOX_SOAK_SEED`, which each proof prints.
import { randomInt } from 'node:crypto'

const MOST = 2 ** 32

/** The seed of this run. */
export const seed = Number(process.env.SANDBOX_SOAK_SEED ?? randomInt(MOST))
if (!Number.isInteger(seed) || seed < 0 || seed >= MOST)
  throw new Error('SANDBOX_SOAK_SEED is no whole number below 2^32')

/** A generator (mulberry32) of numbers from 0 to 1; one for each purpose, so that the order of tests does not matter. */
export function generator(...purpose) {
  let state = [...purpose.join('/')].reduce((hash, letter) => Math.imul(hash ^ letter.charCodeAt(0), 0x01000193), seed)
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / MOST
  }
  return {
    next,
    /** A whole number from `least` to below `most`. */
    between: (least, most) => least + Math.floor(next() * (most - least)),
    pick: list => list[Math.floor(next() * list.length)],
  }
}
