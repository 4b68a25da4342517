// Many sessions at once.

import { randomUUID } from 'node:crypto'
import { COMMANDS, SESSIONS } from './work.mjs'

/** Commands a second over all sessions, of ours and of the peer. */
export async function many({ make, peer }) {
  const owner = make({ transport: 'resident' })
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => owner.acquire({ runId: randomUUID() })))
  const ours = await throughput(sessions.map(session => () => session.exec({ command: '/bin/true' })))
  for (const session of sessions) await session.release({ status: 'completed' })
  await owner.close()
  const containers = []
  // One after the other: the peer has no limiter, and its engine slows down under a burst.
  for (let i = 0; i < SESSIONS; i++) containers.push(await peer.another())
  const theirs = await throughput(containers.map(({ exec }) => exec))
  await Promise.all(containers.map(({ remove }) => remove()))
  return { sessions: SESSIONS, commands: COMMANDS, ours, theirs }
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
