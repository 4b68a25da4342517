// The host process dies of SIGKILL at each step of what it does with an engine and its stores: before a request or a call,
// after it was done and before its answer came, and in the middle of a tar. Then the run is acquired again, which works or
// says exactly why; or it ends by a sweep. After a last sweep the engine and the stores are as they were. Files hold their own
// names: which of them are there, and whole, says which state came back.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createDockerSandboxEnvironment } from '../../index.js'
import { engine, eventually, plainOptions } from '../support/live.mjs'
import { behindProxy } from '../support/engine-proxy.mjs'
import { fileStores } from './support/hosts.mjs'
import { generator, seed } from './support/random.mjs'
import { stepStride } from './support/lengths.mjs'
import { Tally, added, onEngine, room, within } from './support/room.mjs'

const { client, containers, ownerId } = room()
const STEPPER = fileURLToPath(new URL('support/stepper.mjs', import.meta.url))
/** What takes longer hangs. */
const TRIAL_MS = 60_000
/** What an engine was asked for and is not done with by then hangs. */
const LATE_MS = 30_000
const WAITING = 'waiting_approval'

const options = (transport, more) => ({
  ...plainOptions(ownerId),
  transport,
  snapshot: 'docker-commit',
  workspace: { id: 'steps', files: [{ path: 'seed', contents: 'seed' }] },
  limits: { cpus: 2 },
  ...more,
})

/** With the exec transport each run has a network of its own then. */
const ALLOWLIST = { network: { mode: 'allowlist', allowedDomains: ['allowed.test'], allowedPorts: [443] } }

async function wait({ owner, runId, files = ['kept'] }) {
  const session = await owner.acquire({ runId })
  for (const path of files) await session.writeFile(path, path)
  await session.release({ status: WAITING })
}

async function lose() {
  for (const { Id } of await containers()) await client.removeContainer(Id)
}

async function expire({ stores, runId }) {
  const lease = (await stores.leaseStore.list(ownerId)).find(found => found.runId === runId)
  if (lease) assert.ok(await stores.leaseStore.save({ ...lease, expiresAt: 1 }, lease.fence))
}

/** Without the volume that every resident container has. */
async function forgetSupervisor() {
  for (const { Name } of (await engine('GET', '/volumes')).Volumes ?? []) {
    if (Name.startsWith('zhivex-supervisor-')) await engine('DELETE', `/volumes/${Name}`)
  }
}

const held =
  host =>
  async (runId, ...more) => {
    await host.ask('acquire', runId)
    for (const [word, ...rest] of more) await host.ask(word, ...rest)
  }

/** Another process holds the run and dies. */
async function heldByTheDead({ hostOptions, runId }) {
  const other = startStepper(hostOptions)
  await held(other)(runId, ['write', 'kept'])
  other.kill()
  await other.ended
}

/** A container waits, and the process has made what it makes once. */
async function pooled({ host }) {
  await held(host)(randomUUID(), ['release', 'completed'], ['event', 'pooled', 1])
}

const NEW_RUN = {
  steps: ({ host, runId }) => host.ask('acquire', runId),
  may: [['seed']],
  codes: ['ConflictError'],
}
const END_OF_RUN = {
  before: ({ host, runId }) => held(host)(runId, ['write', 'kept'], ['snapshot']),
  steps: ({ host }) => host.ask('release', 'completed'),
  // Until that is on record the run goes on.
  may: [['seed'], ['kept', 'seed']],
}
/**
 * What is done before, what the killed process does, and what the workspace may hold when the run is acquired again; `codes`
 * are those of the errors that may say why it is not, each once before it works. `options` are for the killed process and
 * whoever follows it, `alone` for the killed one only.
 */
const OPERATIONS = {
  'acquire, a new run': NEW_RUN,
  'acquire, a new run on an engine that has seen none': { ...NEW_RUN, only: 'resident', before: forgetSupervisor },
  'acquire, a new run with some domains': { ...NEW_RUN, options: ALLOWLIST },
  'acquire, a new run from the pool': { ...NEW_RUN, only: 'resident', alone: { pool: { size: 1 } }, before: pooled },
  'acquire, a run whose holder died': {
    options: ALLOWLIST,
    before: heldByTheDead,
    steps: ({ host, runId }) => host.ask('acquire', runId),
    may: [['kept', 'seed']],
  },
  'acquire, a run that waits': {
    before: wait,
    steps: ({ host, runId }) => host.ask('acquire', runId),
    may: [['kept', 'seed']],
  },
  'acquire, a run whose container was lost': {
    before: async world => (await wait(world), lose()),
    steps: ({ host, runId }) => host.ask('acquire', runId),
    may: [['kept', 'seed']],
  },
  'acquire, a run whose lease has ended': {
    before: async world => (await wait(world), expire(world)),
    steps: ({ host, runId }) => host.ask('acquire', runId),
    may: [['seed']],
    codes: ['LEASE_EXPIRED'],
  },
  'snapshot, the first': {
    before: ({ host, runId }) => held(host)(runId, ['write', 'kept']),
    steps: ({ host }) => host.ask('snapshot'),
    may: [['kept', 'seed']],
  },
  'snapshot, another, and the container is lost too': {
    before: ({ host, runId }) => held(host)(runId, ['write', 'kept'], ['snapshot'], ['write', 'more']),
    steps: ({ host }) => host.ask('snapshot'),
    after: lose,
    may: [
      ['kept', 'seed'],
      ['kept', 'more', 'seed'],
    ],
    codes: ['SNAPSHOT_INVALID'],
  },
  'a checkpoint, and the container is lost too': {
    alone: { checkpointMs: 100 },
    before: ({ host, runId }) => held(host)(runId, ['event', 'snapshot_saved', 1]),
    steps: async ({ host }) => {
      for (const path of ['kept', 'more']) await host.ask('write', path)
      await host.ask('event', 'snapshot_saved', 2)
    },
    after: lose,
    // It may have begun between the two files.
    may: [['seed'], ['kept', 'seed'], ['kept', 'more', 'seed']],
    codes: ['SNAPSHOT_INVALID'],
  },
  'release, the run is kept': {
    before: ({ host, runId }) => held(host)(runId, ['write', 'kept'], ['snapshot'], ['write', 'more']),
    steps: ({ host }) => host.ask('release', WAITING),
    may: [['kept', 'more', 'seed']],
  },
  'release, the run is kept, and the container is lost too': {
    before: ({ host, runId }) => held(host)(runId, ['write', 'kept'], ['snapshot'], ['write', 'more']),
    steps: ({ host }) => host.ask('release', WAITING),
    after: lose,
    may: [
      ['kept', 'seed'],
      ['kept', 'more', 'seed'],
    ],
    codes: ['SNAPSHOT_INVALID'],
  },
  'release, a run with some domains ends': { ...END_OF_RUN, options: ALLOWLIST },
  'release, the run ends': END_OF_RUN,
  sweep: {
    before: async world => (await wait(world), expire(world)),
    steps: ({ host }) => host.ask('sweep'),
    may: [['seed']],
    codes: ['LEASE_EXPIRED'],
  },
}

for (const transport of ['resident', 'exec']) {
  for (const [name, operation] of Object.entries(OPERATIONS)) {
    if (operation.only && operation.only !== transport) continue
    test(`${name}: killed at each step [${transport}]`, async t => {
      const points = new Tally()
      const codes = new Tally()
      const base = await onEngine()
      let [kills, late] = [0, 0]
      for (let number = first(name, transport); ; number += stepStride) {
        const ways = stepStride === 1 ? ['resumed', 'swept'] : [number % 2 ? 'resumed' : 'swept']
        let reached
        for (const way of ways) {
          const one = trial({ operation, transport, number, way, codes, base })
          const { reached: point, sweeps } = await within(TRIAL_MS, `step ${number}, ${way}`, one)
          reached = point
          if (reached === undefined) break
          late += sweeps > 1 ? 1 : 0
          points.add(reached)
          kills++
        }
        if (reached !== undefined) continue
        // There may be not so many steps as to begin there.
        if (kills > 0 || number === 1) break
        number = 1 - stepStride
      }
      assert.ok(kills > 0, 'there was no step')
      if (stepStride > 1) t.diagnostic(`SANDBOX_SOAK_SEED=${seed}`)
      t.diagnostic(`${kills} kills at ${points.words.length} points: ${points}`)
      t.diagnostic(`${late} times the engine still did what it was asked for when the first sweep was over`)
      t.diagnostic(`what the next acquire was told: ${codes.total ? codes : 'nothing'}`)
    })
  }
}

/** Where those begin that leave steps out: other steps each time. */
const first = (...purpose) => generator('steps', ...purpose).between(1, stepStride + 1)

/**
 * Kills a host at the step of this number, and cleans up behind it. The step's name, `undefined` where there are not so many,
 * and how many sweeps it took.
 */
function trial({ operation, transport, number, way, codes, base }) {
  const { directory, remove, stores } = fileStores()
  let [onStep, armed] = [async () => undefined, false]
  const steps = { path: /./, before: (...of) => onStep('before', ...of), after: (...of) => onStep('after', ...of) }
  return behindProxy([steps], async proxy => {
    const all = options(transport, operation.options)
    const owner = createDockerSandboxEnvironment({ ...all, ...stores })
    const runId = randomUUID()
    let [count, reached] = [0, undefined]
    const hostOptions = { ...all, socketPath: proxy.socketPath, directory }
    const host = startStepper({ ...hostOptions, ...operation.alone })
    const at = async point => {
      if (!armed) return true
      if (reached !== undefined) return false
      if (++count < number) return true
      reached = point
      host.kill()
      await host.ended
      // What it was about to ask for nobody asks for.
      return false
    }
    onStep = (when, path, method) => at(`${when} ${method} ${generic(path)}`)
    host.onStep = at
    try {
      const world = { owner, stores, runId, host, hostOptions }
      await operation.before?.(world)
      host.tell('steps', true)
      armed = true
      const end = await Promise.race([operation.steps(world).catch(error => error), host.ended])
      armed = false
      if (reached === undefined) {
        // It came to its end, whatever that is: an expired lease is told.
        assert.notEqual(end, 'ended', 'it ended by itself')
        host.tell('steps', false)
      }
      host.kill()
      await host.ended
      await operation.after?.(world)
      if (way === 'resumed' && reached !== undefined) await resume(world, operation, reached, codes)
      else await expire(world)
      let [sweeps, more] = [0, []]
      // An engine goes on with what it was asked for, whoever is gone: what it makes then is for the next sweep.
      await eventually(
        `after ${reached} the engine is as it was`,
        async () => {
          const swept = await owner.sweep()
          sweeps++
          assert.deepEqual(swept.failures, [], reached)
          more = added(base, await onEngine())
          return more.length === 0
        },
        LATE_MS,
      ).catch(error => assert.fail(`${error.message}: ${more}`))
      const left = readdirSync(directory).filter(file => !file.startsWith('.lock-'))
      assert.deepEqual(left, [], reached)
      return { reached, sweeps }
    } finally {
      host.kill()
      await owner.close()
      remove()
    }
  })
}

/** Acquires the run, which works, or says why it does not and works then; ends it. */
async function resume({ owner, runId }, { may, codes: allowed = [] }, reached, codes) {
  const told = []
  for (;;) {
    const settled = await owner.acquire({ runId }).then(
      session => ({ session }),
      error => ({ error }),
    )
    if (settled.session) {
      const found = (await settled.session.list()).entries.map(({ path }) => path)
      assert.ok(
        may.some(files => files.join() === found.join()),
        `${reached}: it holds ${found}`,
      )
      for (const path of found) {
        const { contents } = await settled.session.readFile(path, { encoding: 'utf8' })
        assert.equal(contents, path, reached)
      }
      await settled.session.release({ status: 'completed' })
      return
    }
    const { error } = settled
    const code = error.name === 'ConflictError' ? error.name : error.code
    assert.ok(allowed.includes(code) && !told.includes(code), `${reached}: ${told}, ${code} ${error.message}`)
    told.push(code)
    codes.add(code)
    // A container that was made, and had no time to be put on record: a sweep knows that its maker has ended.
    if (code === 'ConflictError') {
      assert.match(error.message, /sweep\(\) with its ownerId removes the container/)
      assert.deepEqual((await owner.sweep()).failures, [])
    }
  }
}

/** A request as a kind of request. */
const generic = path =>
  path
    .replace(/\?.*$/, '')
    .replaceAll(/[0-9a-f]{64}/g, 'ID')
    .replace(/zhivex-sandbox-[0-9a-f]{24}/, 'NAME')
    .replace(/zhivex-supervisor-[0-9a-f]{32}/, 'VOLUME')
    .replace(/sha256[:%][0-9a-fA-F]*(ID)?/, 'IMAGE')
    .replace(/zhivex-sandbox%2[fF][^/]*/, 'IMAGE')

function startStepper(about) {
  const child = spawn(process.execPath, [STEPPER, JSON.stringify(about)], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.on('error', () => undefined)
  const host = { onStep: async () => undefined }
  let answer
  host.ended = new Promise(resolve => child.on('close', () => resolve('ended')))
  createInterface({ input: child.stdout }).on('line', line => {
    const [word, ...rest] = JSON.parse(line)
    if (word === 'step') void host.onStep(...rest).then(() => host.tell('go'))
    else answer?.(word, rest)
  })
  host.tell = (...words) => child.stdin.write(`${JSON.stringify(words)}\n`)
  host.ask = (...words) =>
    new Promise((resolve, reject) => {
      answer = (word, rest) => (word === 'done' ? resolve(rest[0]) : reject(new Error(rest.join(' '))))
      host.tell(...words)
    })
  host.kill = () => child.kill('SIGKILL')
  return host
}
