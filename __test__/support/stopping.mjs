// Processes that are stopped in the middle of something, and followed.
import { readFileSync } from 'node:fs'
import { eventually } from './wait.mjs'

/** So long a process has to be stopped until it is no longer sure that a run is still its own: longer than a heartbeat (5 s). */
export const LONG_MS = 6_000

/** Stops a process, all threads of it. */
export async function stop(child) {
  process.kill(child.pid, 'SIGSTOP')
  await eventually('it is stopped', () => {
    const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2)[0] === 'T'
  })
}

/** Lets it go on, unless it has ended. */
export function goOn(child) {
  if (child && child.exitCode === null && child.signalCode === null) process.kill(child.pid, 'SIGCONT')
}

/** Has the holder of the one run of this owner pass for one that has been silent for long. */
export async function silence(leaseStore, ownerId) {
  const [lease] = await leaseStore.list(ownerId)
  const holder = { ...lease.holder, heartbeatAt: 0 }
  if (!(await leaseStore.save({ ...lease, holder }, lease.fence))) throw new Error('the lease was changed meanwhile')
}
