import assert from 'node:assert/strict'

/** A place where something stops: `stop()` says that it is `reached`, and waits until the test lets it `goOn()`. */
export function stopPoint() {
  let [reach, goOn] = []
  const reached = new Promise(resolve => (reach = resolve))
  const until = new Promise(resolve => (goOn = resolve))
  const stop = () => {
    reach()
    return until
  }
  return { reached, stop, goOn }
}

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
