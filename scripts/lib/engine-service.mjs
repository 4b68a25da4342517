// The service of a private engine: started so that it ends with this process, waited for, and torn down with all it has.

import { spawn, spawnSync } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onInterrupt } from './cleanup.mjs'
import { answers } from './engine-api.mjs'
import { tearDown } from './engine-home.mjs'
import { until } from './proc.mjs'
import { PATH } from './run.mjs'

const START_MS = 60_000
const TEAR_DOWN = fileURLToPath(new URL('../engine.mjs', import.meta.url))

/**
 * Starts `command`, whose log is `log` in the engine's folder, with `env` beside PATH and a HOME there, and waits until it
 * answers at its socket. Rejects with the end of the log when it does not within 60 s.
 */
export async function startService(folder, { what, command, log, env = {} }) {
  const path = join(folder, log)
  const output = openSync(path, 'a')
  // setpriv has the kernel end it when this process is killed with SIGKILL and cannot do it itself. In its own folder: some
  // leave files where they were started.
  const child = spawn('setpriv', ['--pdeathsig', 'TERM', ...command], {
    cwd: folder,
    env: { PATH, HOME: folder, ...env },
    stdio: ['ignore', output, output],
    detached: true,
  })
  child.on('error', () => {})
  const socketPath = join(folder, 'docker.sock')
  const ended = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null
  await until(async () => ended() || (await answers(socketPath)), START_MS)
  if (!ended() && (await answers(socketPath))) return
  const said = readFileSync(path, 'utf8').trim().split('\n').slice(-30).join('\n')
  const how = ended() ? 'ended at once' : `did not answer within ${START_MS / 1000} s`
  throw new Error(`${what} ${how}. The end of its log:\n${said}`)
}

/** What ends the engine of a folder with its containers and removes all of it: once, at a signal and at this process's exit too. */
export function stopper(folder) {
  let stopped
  const stop = () => {
    stopped ??= tearDown(folder).finally(() => {
      forget()
      process.off('exit', onExit)
    })
    return stopped
  }
  // At exit only synchronous work is done, so another process does it.
  const onExit = () => spawnSync(process.execPath, [TEAR_DOWN, '--tear-down', folder], { stdio: 'inherit' })
  const forget = onInterrupt(stop)
  process.on('exit', onExit)
  return stop
}
