// Runs other programs. Each gets a process group of its own, which dies with this process.

import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { isInterrupted, onInterrupt } from './cleanup.mjs'
import { signalTo, until } from './proc.mjs'

/** The root of this repository, without a slash at its end. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** `PATH` with the folders of administration tools, which an ordinary user's lacks. */
export const PATH = `${process.env.PATH ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`

// Enough for the totals that runners print at their end, and for the last lines in an error.
const KEPT_OUTPUT = 1024 * 1024
const GRACE_MS = 5_000

/**
 * Runs `command` with the repository as its folder and resolves to `{ code, output }`: the exit code (128 + n after
 * signal n; 127 when it could not be started) and the last part of stdout and stderr together.
 * `show: false` keeps the output off the terminal. `stdout` may be a file descriptor to write stdout to.
 */
export function run(command, args = [], { cwd = ROOT, env = {}, show = true, stdout = 'pipe' } = {}) {
  return new Promise(resolve => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, PATH, ...env },
      stdio: ['ignore', stdout, 'pipe'],
      detached: true,
    })
    const group = ownGroup(child)
    const isCleanup = isInterrupted()
    let output = ''
    const settle = code => {
      group.forget()
      // Whoever waits for this would go on, and start the next thing while this process is ending.
      if (isCleanup || !isInterrupted()) resolve({ code, output })
    }
    const keep = (chunk, to) => {
      if (show) to.write(chunk)
      output = (output + chunk).slice(-KEPT_OUTPUT)
    }
    child.stdout?.setEncoding('utf8').on('data', chunk => keep(chunk, process.stdout))
    child.stderr.setEncoding('utf8').on('data', chunk => keep(chunk, process.stderr))
    child.on('error', error => {
      output += `${command}: ${error.message}`
      settle(127)
    })
    child.on('close', (code, signal) => settle(codeOf(code, signal)))
    child.on('exit', (code, signal) => {
      // A process that it left behind can hold the pipes open for ever: then 'close' never comes.
      const timer = setTimeout(() => {
        group.kill('SIGKILL')
        output += `\n${command} ended and left a process behind that kept its output open`
        settle(codeOf(code, signal) || 1)
      }, GRACE_MS)
      child.on('close', () => clearTimeout(timer))
    })
  })
}

/** As `run`, without showing the output; a failure is an error that says what was being done and ends with the output. */
export async function must(what, command, args, options) {
  const { code, output } = await run(command, args, { show: false, ...options })
  if (code !== 0) throw new Error(`${what} failed (${command}, exit code ${code}):\n${output.slice(-4000).trim()}`)
  return output
}

function codeOf(code, signal) {
  return code ?? 128 + constants.signals[signal]
}

function ownGroup(child) {
  const kill = signal => child.pid !== undefined && signalTo(-child.pid, signal)
  const onExit = () => kill('SIGKILL')
  process.on('exit', onExit)
  const forget = onInterrupt(async () => {
    kill('SIGTERM')
    await until(() => child.exitCode !== null || child.signalCode !== null, GRACE_MS)
    // The leader may be gone while others of its group are not.
    kill('SIGKILL')
  })
  return {
    kill,
    forget: () => {
      process.off('exit', onExit)
      forget()
    },
  }
}
