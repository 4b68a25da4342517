// What the package holds of this machine's memory, each question in a process of its own: what earlier work made a process
// keep would hide what is asked for.
//
//   node benches/memory.mjs sessions|in|out|snapshot OPTIONS    prints one line of JSON; OPTIONS are those of an environment

import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { memoryHeld } from '../__test__/support/garbage.mjs'
import {
  createDockerSandboxEnvironment,
  createFileLeaseStore,
  createFileSnapshotStore,
  createNodeDockerClient,
} from '../index.js'
import { COMMANDS, FILL, SESSIONS, STREAM_BYTES, drained, lose, pieces } from './work.mjs'

const THIS_FILE = fileURLToPath(import.meta.url)
const ROUNDS = 5

/** The answer to one question, from a new process. */
export async function asked(question, options) {
  const { stdout } = await promisify(execFile)(process.execPath, [THIS_FILE, question, JSON.stringify(options)])
  return JSON.parse(stdout)
}

/**
 * The most that this process has more while `work` goes on than after it went on once: `held` without garbage, `grown` with
 * what the collector has not come to. In bytes.
 */
async function growth(work) {
  for (let round = 0; round < 2; round++) await work()
  const measure = async (look, everyMs) => {
    const before = await memoryHeld()
    let most = before
    const timer = setInterval(async () => (most = Math.max(most, await look())), everyMs)
    for (let round = 0; round < ROUNDS; round++) await work()
    clearInterval(timer)
    return Math.max(most, await look()) - before
  }
  return { held: await measure(memoryHeld, 50), grown: await measure(async () => process.memoryUsage.rss(), 5) }
}

/** Runs `use` with an environment and a run of it. */
async function inRun(options, use) {
  const environment = createDockerSandboxEnvironment(options)
  const run = await environment.acquire({ runId: randomUUID() })
  const answer = await use(run, environment)
  await run.release({ status: 'completed' })
  await environment.close()
  return answer
}

const ANSWERS = {
  /** Bytes of each of many sessions that are open at once and have run commands. */
  sessions: options =>
    inRun(options, async (first, environment) => {
      const busy = run => Promise.all(Array.from({ length: COMMANDS }, () => run.exec({ command: '/bin/true' })))
      await busy(first)
      const before = await memoryHeld()
      const runs = await Promise.all(
        Array.from({ length: SESSIONS }, () => environment.acquire({ runId: randomUUID() })),
      )
      for (const run of runs) await busy(run)
      const bytes = ((await memoryHeld()) - before) / SESSIONS
      for (const run of runs) await run.release({ status: 'completed' })
      return { sessions: SESSIONS, bytes }
    }),

  in: options =>
    inRun(options, run => {
      const large = Buffer.alloc(STREAM_BYTES, 'x')
      return growth(() => run.writeFileStream('g', pieces(large)))
    }),

  out: options =>
    inRun(options, async run => {
      await run.exec({ command: 'sh', args: ['-c', `head -c ${STREAM_BYTES} /dev/zero >g`] })
      return growth(() => drained(run))
    }),

  /** Put away into a file store, lost, and brought back. */
  async snapshot(options) {
    const directory = mkdtempSync(join(tmpdir(), 'sandbox-bench-'))
    const [ownerId, runId] = [`bench-${randomUUID()}`, randomUUID()]
    const client = createNodeDockerClient({ socketPath: options.socketPath })
    const stores = {
      leaseStore: createFileLeaseStore({ directory }),
      snapshotStore: createFileSnapshotStore({ directory }),
    }
    const environment = createDockerSandboxEnvironment({ ...options, ...stores, ownerId })
    try {
      let run = await environment.acquire({ runId })
      await run.exec({ command: 'sh', args: ['-c', FILL], timeoutMs: 60_000 })
      const answer = await growth(async () => {
        await run.writeFile('changed', randomUUID())
        await run.release({ status: 'suspended' })
        await lose(client, ownerId)
        run = await environment.acquire({ runId })
      })
      await run.release({ status: 'completed' })
      await environment.close()
      return answer
    } finally {
      rmSync(directory, { recursive: true })
    }
  },
}

if (process.argv[1] === THIS_FILE) {
  const [question, options] = process.argv.slice(2)
  console.log(JSON.stringify(await ANSWERS[question](JSON.parse(options))))
}
