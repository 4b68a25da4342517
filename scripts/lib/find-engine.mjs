// Which engine an example can use.

import { startEngine, whyNoPrivateEngine } from '../engine.mjs'
import { answers } from './engine-api.mjs'

const DEFAULT_SOCKET = '/var/run/docker.sock'

/**
 * The first that answers of `DOCKER_HOST` (when it is a unix socket), the machine's own engine, and a private engine
 * started for this process. Resolves to `{ socketPath, from, stop }`, or to `{ reason }` when there is none.
 */
export async function findEngine() {
  const host = process.env.DOCKER_HOST
  const sockets = [
    { from: 'DOCKER_HOST', path: host?.startsWith('unix://') ? host.slice('unix://'.length) : undefined },
    { from: "this machine's engine", path: DEFAULT_SOCKET },
  ]
  for (const { from, path } of sockets) {
    if (path && (await answers(path))) return { socketPath: path, from, stop: async () => {} }
  }
  const tried = sockets.flatMap(({ path }) => path ?? [])
  const reason = whyNoPrivateEngine()
  if (reason) return { reason: `no engine answers on ${tried.join(' or ')}, and ${reason}` }
  const engine = await startEngine({ images: ['busybox'] })
  return { ...engine, from: 'a private engine, started for this run' }
}
