// The garbage collector at a test's command, under Node and Bun.
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Collects what nobody refers to. */
export function collectGarbage() {
  if (process.versions.bun) return globalThis.Bun.gc(true)
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc')()
}

/**
 * The memory that this process holds, in bytes, once what nobody refers to is freed. Buffers are freed in steps: their owner's
 * finalizer comes in a later turn of the event loop, and V8 sweeps their memory in a thread of its own, which the next
 * collection waits for. Memory that is looked at in the turn of a collection still holds all that it found.
 */
export async function memoryHeld() {
  for (let time = 0; time < 3; time++) {
    collectGarbage()
    await setImmediate()
  }
  return process.memoryUsage.rss()
}

/** Collects until `check` is true, a turn of the event loop and more between two times; fails after 10 s. */
export async function collecting(what, check) {
  const deadline = performance.now() + 10_000
  while (!check()) {
    if (performance.now() > deadline) assert.fail(`${what}: not within 10 s`)
    collectGarbage()
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** Collects many times over, with time for what follows of it. */
export async function collectAll() {
  let times = 0
  await collecting('many times', () => ++times > 20)
}

/** Makes `count` things by `make`, which gets a function to name each object by, and waits until of each name nearly all are gone. */
export async function allCollected(count, make) {
  const gone = {}
  const registry = new FinalizationRegistry(name => gone[name]++)
  const watch = (name, object) => {
    gone[name] ??= 0
    registry.register(object, name)
  }
  for (let n = 0; n < count; n++) await make(watch, n)
  // A collector may find a few of them on the stack of a thread.
  await collecting('they are collected', () => Object.values(gone).every(number => number >= count * 0.9)).catch(
    error => assert.fail(`${error.message}: ${JSON.stringify(gone)} of ${count}`),
  )
}
