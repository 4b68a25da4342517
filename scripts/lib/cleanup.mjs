// What must happen before this process ends, however it ends: stop engines, kill child processes.
// A signal runs every registered task, newest first, and then exits as that signal would have.

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 }
const tasks = new Set()
let listening = false
let interruptedBy

/** Whether a signal is ending this process: then nothing new may be started. */
export function isInterrupted() {
  return interruptedBy !== undefined
}

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
  if (process.env.npm_lifecycle_event) watchParent()
}

// A signal to npm alone ends npm and the shell between, and never reaches this process: it is only orphaned.
function watchParent() {
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    interrupted('SIGHUP', SIGNALS.SIGHUP)
  }, 500)
  timer.unref()
}

async function interrupted(signal, number) {
  interruptedBy = signal
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
