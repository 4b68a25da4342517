// Facts about other processes and mounts, read from /proc. Linux only, like the private engine that needs them.

import { readFileSync, readdirSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** The start time (clock ticks after boot) of a live process; undefined when it is gone or a zombie. */
export function startTime(pid) {
  // A zombie still has a /proc entry and answers kill(pid, 0): only its state tells that it is dead.
  const stat = read(`/proc/${pid}/stat`)
  // The command's name is in parentheses and may hold any byte, so fields are counted from the last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return stat === '' || fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19])
}

/** A number for this boot of the machine, so that pids from before a reboot are not taken for today's. */
export function bootId() {
  return read('/proc/sys/kernel/random/boot_id').trim()
}

/** The arguments of a process; empty when it is gone. */
export function commandLine(pid) {
  return read(`/proc/${pid}/cmdline`).split('\0')
}

/** Every live process as `{ pid, parent }`. */
export function processes() {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  return pids.filter(pid => startTime(pid) !== undefined).map(pid => ({ pid: Number(pid), parent: parentOf(pid) }))
}

/** `pids` and everything below them, children last. */
export function withDescendants(pids) {
  const all = processes()
  const found = [...pids]
  for (const pid of found) {
    for (const child of all) if (child.parent === pid && !found.includes(child.pid)) found.push(child.pid)
  }
  return found
}

/** Mount points at or below `folder`, innermost first. */
export function mountsBelow(folder) {
  const points = read('/proc/self/mountinfo')
    .split('\n')
    .map(line => unescape(line.split(' ')[4] ?? ''))
  return points.filter(point => point === folder || point.startsWith(`${folder}/`)).toReversed()
}

/** Sends `signal` to `pid`; a process that is already gone is no error. */
export function signalTo(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

/** Asks `condition` until it gives something truthy, which is returned; undefined after `deadlineMs`. */
export async function until(condition, deadlineMs, everyMs = 25) {
  const end = Date.now() + deadlineMs
  for (;;) {
    const value = await condition()
    if (value || Date.now() >= end) return value || undefined
    await delay(everyMs)
  }
}

function parentOf(pid) {
  const stat = read(`/proc/${pid}/stat`)
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

// The kernel writes blanks and backslashes in a path as three octal digits.
function unescape(path) {
  return path.replace(/\\([0-7]{3})/g, (_, digits) => String.fromCharCode(parseInt(digits, 8)))
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
    throw error
  }
}
