// What must happen before this process ends, however it ends: stop engines, kill child processes.
// A signal runs every registered task, newest first, and then exits as that signal would have.

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }
const tasks = new Set()
let listening = false

/**
 * Registers `task` (may be async) to be run when a signal ends this process.
 * Returns a function that takes it off the list; call it once the thing is cleaned up.
 */
export function onInterrupt(task) {
  listen()
  tasks.add(task)
  return () => tasks.delete(task)
}

function listen() {
  if (listening) return
  listening = true
  for (const [signal, number] of Object.entries(SIGNALS)) {
    // Once only: a second Ctrl-C falls through to the default action and ends a clean-up that hangs.
    process.once(signal, () => interrupted(signal, number))
  }
}

async function interrupted(signal, number) {
  console.error(`\n${signal}: cleaning up`)
  for (const task of [...tasks].toReversed()) {
    try {
      await task()
    } catch (error) {
      console.error(`clean-up failed: ${error.message}`)
    }
  }
  process.exit(128 + number)
}
