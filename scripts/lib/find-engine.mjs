// Which engine an example can use.

import { startEngine, whyNoPrivateEngine } from '../engine.mjs'
import { answers } from './engine-api.mjs'

const DEFAULT_SOCKET = '/var/run/docker.sock'

/** The first that answers of `DOCKER_HOST`, when it is a unix socket, and the machine's own engine; or undefined. */
export async function findRunning() {
  for (const candidate of candidates()) {
    if (await answers(candidate.socketPath)) return { ...candidate, stop: async () => {} }
  }
  return undefined
}

/**
 * A running engine, or a private one started for this process. Resolves to `{ socketPath, from, stop }`, or to
 * `{ reason }` when there is none.
 */
export async function findEngine() {
  const running = await findRunning()
  if (running) return running
  const reason = whyNoPrivateEngine()
  if (reason) {
    const tried = candidates().map(({ socketPath }) => socketPath)
    return { reason: `no engine answers on ${tried.join(' or ')}, and ${reason}` }
  }
  const engine = await startEngine({ images: ['busybox'] })
  return { ...engine, from: 'a private engine, started for this run' }
}

function candidates() {
  const host = process.env.DOCKER_HOST
  const named = host?.startsWith('unix://') ? [{ socketPath: host.slice('unix://'.length), from: 'DOCKER_HOST' }] : []
  return [...named, { socketPath: DEFAULT_SOCKET, from: "this machine's engine" }]
}
