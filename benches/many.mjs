// Many sessions at once, and what each of them costs this process.

import { randomUUID } from 'node:crypto'
import { memory } from './report.mjs'

const SESSIONS = 100
const COMMANDS = 10

/** Commands a second over all sessions, of ours and of the peer; the memory of one of ours in bytes. */
export async function many({ make, peer }) {
  const owner = make({ transport: 'resident' })
  // What the process needs for the first one is not what each one costs.
  const first = await owner.acquire({ runId: randomUUID() })
  await first.exec({ command: '/bin/true' })
  const before = memory()
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => owner.acquire({ runId: randomUUID() })))
  const ours = await throughput(sessions.map(session => () => session.exec({ command: '/bin/true' })))
  const bytes = (memory() - before) / SESSIONS
  for (const session of [first, ...sessions]) await session.release({ status: 'completed' })
  await owner.close()
  const containers = []
  // One after the other: the peer has no limiter, and its engine slows down under a burst.
  for (let i = 0; i < SESSIONS; i++) containers.push(await peer.another())
  const theirs = await throughput(containers.map(({ exec }) => exec))
  await Promise.all(containers.map(({ remove }) => remove()))
  return { sessions: SESSIONS, commands: COMMANDS, ours, theirs, bytes }
}

async function throughput(sessions) {
  const start = performance.now()
  await Promise.all(
    sessions.map(async exec => {
      for (let i = 0; i < COMMANDS; i++) await exec()
    }),
  )
  return (sessions.length * COMMANDS * 1000) / (performance.now() - start)
}
