// A process that is stopped between two requests to the engine, and followed: what it goes on with does nothing to the next
// holder. By docker exec, where the engine does what it is asked whoever asks; process 1 of the other transport knows better.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createFileLeaseStore, createFileSnapshotStore } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { eventually, lab, runProgram, transport } from '../support/live.mjs'
import { LONG_MS, goOn, silence, stop } from '../support/stopping.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const { environment, leavesNothing, ownerId } = lab()

const OPERATIONS = {
  exec: `session.exec({ command: 'sh', args: ['-c', 'echo intruder >seen'] })`,
  spawn: `session.spawn({ command: 'sh', args: ['-c', 'echo intruder >seen'] }).then(({ result }) => result)`,
  writeFile: `session.writeFile('seen', 'intruder')`,
}

for (const [what, operation] of Object.entries(OPERATIONS)) {
  test(
    `a command that was created and not started when its holder was followed does not run: ${what}`,
    { skip: transport !== 'exec' },
    async () => {
      const root = temporaryDirectory()
      const directory = join(root, 'stores')
      const stores = {
        leaseStore: createFileLeaseStore({ directory }),
        snapshotStore: createFileSnapshotStore({ directory }),
      }
      const [runId, go] = [randomUUID(), join(root, 'go')]
      let [child, stopped, followed] = [undefined, undefined, () => undefined]
      const isFollowed = new Promise(resolve => (followed = resolve))
      // The reply to the create call comes to a process that is stopped, and is read when that goes on.
      const rule = {
        method: 'POST',
        path: /^\/containers\/[^/]+\/exec$/,
        after() {
          if (!existsSync(go) || stopped) return undefined
          stopped = stop(child)
          return stopped.then(() => isFollowed)
        },
      }
      await behindProxy([rule], async proxy => {
        const program = `
        const { existsSync } = await import('node:fs')
        const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
        const files = api.createFileLeaseStore({ directory: ${JSON.stringify(directory)} })
        // Slow, so that no heartbeat finds out first.
        let slow = 0
        const leaseStore = {
          load: key => pause(slow).then(() => files.load(key)),
          save: (...args) => files.save(...args),
          remove: (...args) => files.remove(...args),
          list: owner => files.list(owner),
        }
        const mine = api.createDockerSandboxEnvironment({
          ...options,
          transport: 'exec',
          socketPath: ${JSON.stringify(proxy.socketPath)},
          leaseStore,
          snapshotStore: api.createFileSnapshotStore({ directory: ${JSON.stringify(directory)} }),
        })
        const session = await mine.acquire({ runId: ${JSON.stringify(runId)} })
        await session.writeFile('mine', 'x')
        console.log('holds')
        while (!existsSync(${JSON.stringify(go)})) await pause(10)
        slow = 1000
        const said = await ${operation}.then(() => 'done', error => error.name)
        console.log('it ended: ' + said)
        await session.release({ status: 'failed' })
        await mine.close()`
        const ended = runProgram(ownerId, program, {
          timeoutMs: 60_000,
          started(process_, said) {
            child = process_
            if (said.includes('holds') && !existsSync(go)) writeFileSync(go, '')
          },
        })
        const next = environment({ ...stores, transport: 'exec' })
        let session
        try {
          await eventually('it has created its command', () => stopped !== undefined)
          await stopped
          const begun = performance.now()
          await silence(stores.leaseStore, ownerId)
          session = await next.acquire({ runId })
          await session.writeFile('theirs', 'x')
          await new Promise(resolve => setTimeout(resolve, LONG_MS - (performance.now() - begun)))
          followed()
          goOn(child)
          const { stdout, stderr } = await ended
          assert.deepEqual([stdout, stderr], ['holds\nit ended: ConflictError\n', ''])
          const { entries } = await session.list()
          assert.deepEqual(
            entries.map(({ path }) => path),
            ['mine', 'theirs'],
          )
        } finally {
          followed()
          goOn(child)
          await session?.release({ status: 'completed' })
          await next.close()
          await ended
        }
      })
    },
  )
}

leavesNothing()
