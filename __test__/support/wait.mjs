import assert from 'node:assert/strict'

/** Waits until `check` gives a truthy value, which it returns; fails after `ms`. */
export async function eventually(what, check, ms = 10_000) {
  const deadline = performance.now() + ms
  for (;;) {
    const value = await check()
    if (value) return value
    if (performance.now() > deadline) assert.fail(`${what}: not within ${ms} ms`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
