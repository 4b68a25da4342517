// A host that is stopped (SIGSTOP) with its stream open falls silent. The next one takes its run over; the stopped one,
// continued, finds every call refused, changes nothing and removes nothing.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createDockerSandboxEnvironment } from '../../index.js'
import { contentsOf, workspaceOf } from './support/contents.mjs'
import { Model, fileStores, hostOptions, startHost } from './support/hosts.mjs'
import { stops } from './support/lengths.mjs'
import { generator, seed } from './support/random.mjs'
import { Tally, pause, room, socketPath, spread, within } from './support/room.mjs'

const { containers, ownerId } = room()
/** All wait for the silence of their holder at the same time, so many at once. */
const AT_ONCE = 10
const READY_MS = 60_000
/** A holder is silent after 20 s; the way over a bridge, with a host that holds up the stream, takes some more. */
const TAKE_OVER_MS = 60_000
const TYPED = [/^ConflictError /, /^SandboxError (RELEASED|CONTAINER_LOST)$/]
const OVER = 'over'

test(`${stops} hosts are stopped, followed, and continued`, async t => {
  t.diagnostic(`SANDBOX_SOAK_SEED=${seed}`)
  const [ways, refusals, waits] = [new Tally(), new Tally(), []]
  const numbers = Array.from({ length: stops }, (_, number) => number)
  for (let at = 0; at < stops; at += AT_ONCE) {
    await Promise.all(numbers.slice(at, at + AT_ONCE).map(number => follow(number, { ways, refusals, waits })))
  }
  assert.deepEqual(await containers(), [])
  t.diagnostic(`stopped: ${ways}`)
  t.diagnostic(`taken over in ms after the stop: ${spread(waits)}`)
  t.diagnostic(`what the continued host was told: ${refusals}`)
})

async function follow(number, { ways, refusals, waits }) {
  const random = generator('stops', number)
  const { directory, remove, stores } = fileStores()
  const [runId, model] = [`stop-${number}-${randomUUID()}`, new Model()]
  const options = hostOptions(ownerId, socketPath)
  const said = { afterwards: [], problems: [], words: new Set() }
  // Every second one leaves the engine with output that nobody takes: it then holds up whoever else attaches.
  const about = { options, stores: directory, runId, round: number, flood: number % 2 === 1 }
  const host = startHost(about, ([what, ...rest]) => {
    said.words.add(what)
    if (what === 'begin') model.begin(...rest)
    if (what === 'end') model.end(rest[0])
    if (what === 'wrong') said.problems.push(rest)
    if (what === 'afterwards') said.afterwards.push(rest)
    if (what === 'stopped') said.stopped ??= rest
  })
  const next = createDockerSandboxEnvironment({ ...options, ...stores })
  let session
  try {
    await within(
      READY_MS,
      `host ${number}`,
      until(host, () => said.words.has('ready')),
    )
    await pause(random.between(100, 600))
    host.kill('SIGSTOP')
    const begun = performance.now()
    // What it said before may still be on its way here.
    await pause(500)
    ways.add(model.open > 0 ? 'in an operation' : 'between operations')
    session = await takeOver(next, runId)
    waits.push(performance.now() - begun)
    model.gone()
    model.check(await workspaceOf(session), `run ${number}`)
    const mine = await writeAll(session)

    host.kill('SIGCONT')
    const end = await within(READY_MS, `the continued host ${number} (${[...said.words]})`, host.ended)
    assert.deepEqual([end.code, end.stderr, said.problems, said.words.has(OVER)], [0, '', [], true])
    for (const [name, ...told] of said.afterwards) {
      // A release never rejects.
      if (name === 'release') assert.deepEqual(told, ['done'])
      else assert.ok(/^ConflictError |^SandboxError RELEASED/.test(told.join(' ')), `${name}: ${told}`)
      refusals.add(told.join(' '))
    }
    assert.ok(
      TYPED.some(typed => typed.test(said.stopped.slice(0, 2).join(' '))),
      String(said.stopped),
    )
    refusals.add(`(what was under way) ${said.stopped.slice(0, 2).join(' ')}`)

    assert.deepEqual(await workspaceOf(session), mine)
    const { stdout } = await session.exec({ command: 'echo', args: ['undisturbed'] })
    assert.equal(stdout, 'undisturbed\n')
  } finally {
    host.kill('SIGCONT')
    host.kill('SIGKILL')
    await session?.release({ status: 'completed' })
    await next.close()
    remove()
  }
}

async function until(host, check) {
  const gone = { yet: false }
  void host.ended.then(end => (gone.yet = end))
  while (!check()) {
    if (gone.yet) assert.fail(`it ended: ${JSON.stringify(gone.yet)}`)
    await pause(20)
  }
}

/** A live holder is a conflict, until it was silent for long enough. */
async function takeOver(environment, runId) {
  const end = performance.now() + TAKE_OVER_MS
  for (;;) {
    try {
      return await environment.acquire({ runId })
    } catch (error) {
      if (error.name !== 'ConflictError' || performance.now() > end) throw error
      await pause(500)
    }
  }
}

/** Every file anew; what the workspace then is. */
async function writeAll(session) {
  const version = 1_000_000
  const paths = ['a0', 'a1', 'a2', 'deep/er/a3', 'a4', 'b0', 'b1', 'c0']
  for (const path of paths) await session.writeFile(path, contentsOf(path, version, 10_000))
  await session.writeFile('log', '1\n')
  const state = await workspaceOf(session)
  for (const path of paths) assert.equal(state.files[path], version)
  return state
}
