// The host process dies of SIGKILL at random moments, every second time in the middle of a frame. The next one attaches, and
// finds the workspace as the last acknowledged operation left it; no answer is another operation's.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createDockerSandboxEnvironment } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { workspaceOf } from './support/contents.mjs'
import { cutting } from './support/cutting.mjs'
import { Model, fileStores, hostOptions, startHost } from './support/hosts.mjs'
import { kills } from './support/lengths.mjs'
import { generator, seed } from './support/random.mjs'
import { Tally, pause, room, socketPath, spread, within } from './support/room.mjs'

const { containers, ownerId } = room()
/** A host that is not ready by then, or does not die, is a failed proof. */
const HOST_MS = 60_000
/** Long after this a host is killed that sends no frame of the wanted kind. */
const FRAME_MS = 10_000
/** A host that gets no answer to its hello for so long clears half a frame out of its way (docs/protocol.md, Connection). */
const HELLO_AGAIN_MS = 500

test(`a host is killed ${kills} times, and the next one goes on`, async t => {
  t.diagnostic(`SANDBOX_SOAK_SEED=${seed}`)
  const { directory, remove, stores } = fileStores()
  const runId = randomUUID()
  const about = { options: hostOptions(ownerId, socketPath), stores: directory, runId }
  const [model, cuts, moments, unsure, acquires] = [new Model(), new Tally(), new Tally(), new Tally(), []]
  const random = generator('kills')
  try {
    for (let round = 1; round <= kills; round++) {
      const isMidFrame = round % 2 === 0
      const end = isMidFrame ? await killMidFrame(round) : await killAnywhen(round)
      assert.equal(end.signal, 'SIGKILL', `round ${round}: it ended by itself: ${JSON.stringify(end)}`)
    }
    const last = createDockerSandboxEnvironment({ ...about.options, ...stores })
    const session = await within(HOST_MS, 'the last acquire', last.acquire({ runId }))
    count(model.check(await workspaceOf(session), 'at the end'))
    assert.equal((await containers()).length, 1)
    await session.release({ status: 'completed' })
    assert.deepEqual(await stores.leaseStore.list(ownerId), [])
    await last.close()
  } finally {
    remove()
  }
  t.diagnostic(`killed: ${moments}`)
  t.diagnostic(`frames that were cut: ${cuts}`)
  t.diagnostic(`operations without an acknowledgement: ${unsure}`)
  const late = acquires.filter(ms => ms >= HELLO_AGAIN_MS).length
  t.diagnostic(`attached in ms: ${spread(acquires)}; ${late} times half a frame was in the way`)
  assert.equal(cuts.total, Math.floor(kills / 2))
  assert.ok(late > 0, 'no half frame ever reached process 1')
  assert.ok(moments.of('in an operation') > kills / 2, String(moments))

  function count({ done, undone }) {
    unsure.add('done', done)
    unsure.add('not done', undone)
  }

  /** Starts a host and does `kill` when it is ready. Its end, after a look at what it found. */
  async function hostUntil(round, socket, kill) {
    const said = new Tally()
    const host = startHost({ ...about, options: { ...about.options, socketPath: socket }, round }, words => {
      const [what, ...rest] = words
      said.add(what)
      if (what === 'acquired') acquires.push(rest[0])
      if (what === 'found') count(model.check(rest[0], `round ${round}`))
      if (what === 'begin') model.begin(...rest)
      if (what === 'end') model.end(rest[0])
      if (what === 'ready') kill(host, 'ready')
      if (what === 'wrong' || what === 'stopped') problems.push(`round ${round}: ${JSON.stringify(words)}`)
    })
    const problems = []
    kill(host, 'started')
    let end
    try {
      end = await within(HOST_MS, `round ${round} (${said})`, host.ended)
    } finally {
      host.kill('SIGKILL')
    }
    assert.deepEqual(problems, [])
    const moment =
      said.of('ready') === 0 ? 'while it acquired' : model.open > 0 ? 'in an operation' : 'between operations'
    moments.add(moment)
    model.gone()
    return end
  }

  function killAnywhen(round) {
    // The first one is let through, or there would be no run. Every fifth is killed early.
    const early = round > 1 && random.next() < 0.2
    const after = early ? random.between(30, 500) : random.between(0, 250)
    return hostUntil(round, socketPath, async (host, when) => {
      if (when !== (early ? 'started' : 'ready')) return
      await pause(after)
      host.kill('SIGKILL')
    })
  }

  async function killMidFrame(round) {
    const wanted = random.pick(['Data', 'Data', 'Data', 'Exec', 'WriteFile', 'ReadFile', 'End', 'Hello', 'any', 'any'])
    const skip = wanted === 'Hello' ? 0 : random.between(0, 30)
    let [seen, ready, host, timer] = [0, wanted === 'Hello', undefined, undefined]
    const choose = (kind, length) => {
      if (!ready || (kind !== wanted && wanted !== 'any') || seen++ < skip) return undefined
      return random.between(1, length)
    }
    const cut = async kind => {
      cuts.add(kind)
      // The half frame goes its way first.
      await pause(20)
      host.kill('SIGKILL')
    }
    const raw = { method: 'POST', path: /\/attach\?|\/exec\/\w+\/start/, upstream: () => cutting(choose, cut) }
    return behindProxy([raw], proxy =>
      hostUntil(round, proxy.socketPath, (started, when) => {
        host = started
        ready ||= when === 'ready'
        timer ??= setTimeout(() => started.kill('SIGTERM'), FRAME_MS + HOST_MS / 2)
      }).finally(() => clearTimeout(timer)),
    )
  }
})
