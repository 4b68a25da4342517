// What the tests of streams share.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryHeld } from './garbage.mjs'
import { transport as asked, eventually, lab } from './live.mjs'

export const MIB = 2 ** 20

/** Node tries both; Bun the one that it was asked for, since nothing between them and it depends on the runtime. */
const TRANSPORTS = process.versions.bun ? [asked] : ['auto', 'exec']

/** The same test over both transports, in a session of its own. `use` gets it, and its `environment`, `runId` and `transport`. */
export function onBothTransports({ inSession }, title, options, use) {
  for (const transport of TRANSPORTS) {
    test(`${title} [${transport}]`, () =>
      inSession({ ...options, transport }, (session, run) => use(session, { ...run, transport })))
  }
}

/** Both streams of a command as bytes, and how it ended. */
export async function collect(stream) {
  const found = { stdout: [], stderr: [] }
  for await (const { stream: from, data } of stream) found[from].push(Buffer.from(data))
  const { durationMs, ...result } = await stream.result
  assert.equal(typeof durationMs, 'number')
  return { stdout: Buffer.concat(found.stdout), stderr: Buffer.concat(found.stderr), result }
}

/** The next line of standard output, in however many pieces it comes: a shell may write one byte by byte. */
export async function lineOf(pieces) {
  let line = ''
  while (!line.endsWith('\n')) {
    const { value, done } = await pieces.next()
    assert.deepEqual([done ?? false, value?.stream], [false, 'stdout'], line)
    line += Buffer.from(value.data).toString()
  }
  return line
}

export const ended = (exitCode, outcome = 'exited', more = {}) => ({
  exitCode,
  outcome,
  truncated: false,
  timedOut: false,
  ...more,
})

export const shell = (script, ...args) => ({ command: 'sh', args: ['-c', script, 'sh', ...args] })

/**
 * The command lines of what runs in the container and has an argument `marker-…`. A shell whose last command is a program of
 * its own may become that program, and its arguments are gone: a marked script ends with `:`.
 */
export async function runningIn(session) {
  const look = 'for p in /proc/[0-9]*; do [ "$p" = /proc/$$ ] || { tr "\\0" " " <$p/cmdline; echo; }; done 2>/dev/null'
  const { stdout } = await session.exec({ command: 'sh', args: ['-c', look] })
  return stdout.split('\n').filter(line => line.includes('marker-'))
}

/** Waits until something with each of these markers runs. */
export const isRunning = (session, ...markers) =>
  eventually(`${markers.join(' and ')} run`, async () => {
    const lines = await runningIn(session)
    return markers.every(marker => lines.some(line => line.includes(marker)))
  })

/**
 * How much more memory was in use at most while `use` went on, in MiB, looked at twenty times a second. What was read and
 * let go is the runtime's garbage: it is collected before each look, so that what counts is what is held.
 */
export const memoryOf = async use => {
  const before = await memoryHeld()
  let most = 0
  const look = async () => (most = Math.max(most, await memoryHeld()))
  const sample = setInterval(look, 50)
  try {
    await use()
  } finally {
    clearInterval(sample)
  }
  return ((await look()) - before) / MIB
}

export { lab }
