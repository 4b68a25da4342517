// A program in the sandbox changes what names mean, as fast as it can, while the sandbox works on them: no byte from outside
// the workspace comes in, none is written outside, nothing hangs, and each operation ends in one of the outcomes that fit.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { behindProxy } from '../support/engine-proxy.mjs'
import { Snapshots, bytesOf } from '../support/stores.mjs'
import { raceSeconds } from './support/lengths.mjs'
import { Tally, behind, eventually, room, spread, within } from './support/room.mjs'

const { client, containers, environment } = room()

// A race that made fewer changes than this was none. It makes some ten thousand on an idle processor.
const LEAST_SWAPS_A_SECOND = 100
/** No operation takes longer, and no keeping release, however much of the processor the racers take. */
const OPERATION_MS = 10_000
const SNAPSHOT_MS = 10_000
/** How many times as long a race may take until each operation has met what it must. */
const PATIENCE = 10
const LIMITS = { commandTimeoutMs: 10 * 60_000, pids: 256 }
// What the kernel or the supervisor may say about a name that is something else by now.
const TYPED = ['done', 'PATH_INVALID', 'NOT_FOUND', 'DENIED']
const LINKED = ['done', 'PATH_INVALID']
const GONE = ['done', 'NOT_FOUND']
const LEASED = ['done', 'DENIED']

// What each operation must have met, or the race was none for it. A write replaces what it does not open, so hard links and
// leases are nothing to it, and a listing opens no file.
const RACES = {
  symlink: { read: LINKED, list: LINKED, write: LINKED, readStream: LINKED, writeStream: LINKED },
  rename: { read: GONE, list: GONE, write: LINKED, readStream: GONE, writeStream: LINKED },
  remove: { read: GONE, list: ['done'], write: ['done'], readStream: GONE, writeStream: ['done'] },
  hardlink: { read: ['done'], list: ['done'], write: ['done'], readStream: ['done'], writeStream: ['done'] },
  fifo: { read: LINKED, list: LINKED, write: LINKED, readStream: LINKED, writeStream: LINKED },
  lease: { read: LEASED, list: ['done'], write: ['done'], readStream: LEASED, writeStream: ['done'] },
}

const READ = ['f', 'd/f', 'd/sub/f']
const WRITTEN = ['w', 'd/w', 'd/sub/w']

function insideOnly(bytes, what) {
  const text = Buffer.from(bytes).toString('latin1')
  assert.ok(!text.includes('CANARY'), `${what}: bytes from outside`)
  assert.match(text.slice(0, 8), /^(inside\n|written\n)/, what)
}

async function* slowly() {
  for (let i = 0; i < 3; i++) yield Buffer.from('written\n'.repeat(5_000))
}

/** Each tries one name after the other. */
const OPERATIONS = {
  async read(session, n) {
    insideOnly((await session.readFile(READ[n % READ.length])).contents, 'read')
  },
  async list(session, n) {
    const { entries } = await session.list(['d', '.', 'd/sub'][n % 3], { depth: 4 })
    for (const { path } of entries) assert.ok(!path.includes('outsider'), `list: ${path}`)
  },
  async write(session, n) {
    await session.writeFile(WRITTEN[n % WRITTEN.length], `written\n${n}`)
  },
  async readStream(session, n) {
    const pieces = []
    for await (const piece of await session.readFileStream(['d/big', ...READ][n % 4])) pieces.push(piece)
    insideOnly(Buffer.concat(pieces), 'readStream')
  },
  async writeStream(session, n) {
    await session.writeFileStream(WRITTEN[n % WRITTEN.length], slowly())
  },
}

/** What is outside is as it was, and nothing was added. */
async function untouched(container) {
  const said = []
  const look =
    'find /canary /tmp -type f | sort; cat /canary/* /canary/sub/* /tmp/canary/* /tmp/canary/sub/* 2>/dev/null | sort -u'
  await behind(container, ['sh', '-c', look], line => said.push(line)).ended
  const names = ['big', 'f', 'outsider', 'sub/f', 'w']
  const paths = ['/canary', '/tmp/canary'].flatMap(folder => names.map(name => `${folder}/${name}`))
  assert.deepEqual(said, [...paths, 'CANARY of the image', 'CANARY of the other mount'])
}

/** Adds up what racers say. */
function score() {
  const score = { swaps: 0, escapes: 0 }
  return {
    score,
    /** A listener for one racer. */
    racer: () => {
      let before = 0
      return line => {
        const [, swaps, escapes] = line.match(/^swaps (\d+) escapes (\d+)/) ?? []
        if (swaps === undefined) return
        score.swaps += Number(swaps) - before
        before = Number(swaps)
        score.escapes += Number(escapes)
      }
    },
    check: seconds => {
      assert.equal(score.escapes, 0)
      assert.ok(score.swaps > LEAST_SWAPS_A_SECOND * seconds, `only ${score.swaps} changes in ${seconds} s`)
    },
  }
}

for (const [kind, needed] of Object.entries(RACES)) {
  test(`${kind}: reads, writes and listings`, async t => {
    const owner = environment({ limits: LIMITS })
    const session = await owner.acquire({ runId: randomUUID() })
    try {
      const [{ Id }] = await containers()
      const { check, racer, score: counted } = score()
      const stop = new AbortController()
      const stream = await session.execStream({
        command: 'racer',
        args: [kind, String(LIMITS.commandTimeoutMs)],
        signal: stop.signal,
      })
      const racing = listen(stream, racer())
      await eventually('the race begins', () => counted.swaps > 0)
      const met = Object.fromEntries(Object.keys(OPERATIONS).map(name => [name, new Tally()]))
      const lacks = () => Object.keys(met).filter(name => needed[name].some(word => met[name].of(word) === 0))
      const begun = performance.now()
      const seconds = () => (performance.now() - begun) / 1000
      // On a busy machine it takes longer until each has met what it must.
      const goesOn = () => seconds() < raceSeconds || (lacks().length > 0 && seconds() < PATIENCE * raceSeconds)
      const found = await Promise.all(
        Object.keys(OPERATIONS).map(async name => {
          const took = []
          for (let n = 0; goesOn(); n++) {
            const from = performance.now()
            met[name].add(await attempt(name, OPERATIONS[name](session, n)))
            took.push(performance.now() - from)
          }
          return { name, outcome: met[name], took }
        }),
      )
      const lasted = seconds()
      stop.abort()
      await racing
      for (const { name, outcome, took } of found) {
        t.diagnostic(`${kind}, ${name}: ${outcome.total} attempts (${outcome}); ms: ${spread(took)}`)
      }
      t.diagnostic(`${kind}: ${counted.swaps} changes`)
      check(lasted)
      assert.deepEqual(lacks(), [], 'operations that never met what this race does')
      for (const { name, outcome } of found) {
        assert.deepEqual(
          outcome.words.filter(word => !TYPED.includes(word)),
          [],
          `${name}: ${outcome}`,
        )
      }
      const kept = (await session.readFile('keep', { encoding: 'utf8' })).contents
      assert.equal(kept, 'inside\n', 'a write went through a hard link')
      await untouched(Id)
    } finally {
      await session.release({ status: 'completed' })
      await owner.close()
    }
  })

  test(`${kind}: tars out`, async t => {
    const [events, snapshotStore] = [[], new Snapshots()]
    const owner = environment({ limits: LIMITS, snapshotStore, onEvent: event => events.push(event) })
    const session = await owner.acquire({ runId: randomUUID() })
    try {
      const [{ Id }] = await containers()
      const { check, racer, score: counted } = score()
      const stop = new AbortController()
      const race = () =>
        session.execStream({
          command: 'racer',
          args: [kind, String(LIMITS.commandTimeoutMs)],
          signal: stop.signal,
        })
      const racing = [listen(await race(), racer())]
      for (let more = 0; more < 4; more++) racing.push(listen(await race(), () => undefined))
      await eventually('the race begins', () => counted.swaps > 0)
      const [took, bytes, end] = [[], [], performance.now() + raceSeconds * 1000]
      while (performance.now() < end) {
        const begun = performance.now()
        await within(3 * SNAPSHOT_MS, 'a snapshot', session.snapshot())
        took.push(performance.now() - begun)
        const tar = snapshotStore.bytes(snapshotStore.keys[0])
        assert.ok(!tar.includes('CANARY'), 'bytes from outside')
        assert.ok(tar.includes('inside\n'), 'a snapshot of nothing')
        bytes.push(tar.length)
      }
      stop.abort()
      await Promise.all(racing)
      t.diagnostic(
        `${kind}, tars out: ${took.length} attempts; ms: ${spread(took)}; bytes: ${spread(bytes)}; ${counted.swaps} changes`,
      )
      check(raceSeconds)
      const failed = events.filter(({ type }) => /_failed|lost|fallback/.test(type))
      assert.deepEqual(failed, [])
      assert.ok(Math.max(...took) < SNAPSHOT_MS, `a snapshot took ${Math.max(...took)} ms`)
      await untouched(Id)
    } finally {
      await session.release({ status: 'completed' })
      await owner.close()
    }
  })

  test(`${kind}: tars in`, t => {
    const looks = new Tally()
    const look = async id => {
      if ((await failureOrNothing(client.inspectContainer(id))) === undefined) looks.add(await lookAt(id))
    }
    // Where the tar does not go in, the container is removed at once; this is the last moment to look.
    const path = /^\/containers\/\w{64}/
    const rule = { method: 'DELETE', path, before: removed => look(removed.match(/\w{64}/)[0]) }
    return behindProxy([rule], ({ socketPath }) => tarsIn(t, { kind, look, looks, socketPath }))
  })
}

async function tarsIn(t, { kind, look, looks, socketPath }) {
  const snapshotStore = new Snapshots()
  const { check, racer, score: counted } = score()
  const owner = environment({ limits: LIMITS, snapshotStore, socketPath })
  const runId = randomUUID()
  const races = []
  try {
    await fill(await owner.acquire({ runId }))
    const [key] = snapshotStore.keys
    const [kept, { meta }] = [snapshotStore.bytes(key), await snapshotStore.load(key)]
    snapshotStore.overrides = {
      load: async () => ({ meta, tar: raced(kept) }),
      // What it is by then is nothing to go on from.
      save: async (_key, _meta, tar) => void (await bytesOf(tar)),
    }
    const outcome = new Tally()
    const end = performance.now() + raceSeconds * 1000
    do {
      await removeAll()
      outcome.add(await attempt('restoring', restored(owner, runId, look)))
    } while (performance.now() < end)
    await removeAll()
    await Promise.all(races)
    t.diagnostic(
      `${kind}, tars in: ${outcome.total} attempts (${outcome}); ${counted.swaps} changes; outside: ${looks}`,
    )
    // Most of the time goes to the start of containers.
    check(raceSeconds / 10)
    assert.deepEqual(
      outcome.words.filter(word => !TYPED.includes(word)),
      [],
      String(outcome),
    )
    assert.deepEqual(looks.words, ['sound'])
    assert.ok(looks.total >= outcome.total, `${looks}, ${outcome}`)
  } finally {
    snapshotStore.overrides = {}
    await removeAll()
    await owner.close()
  }

  async function* raced(tar) {
    const [{ Id }] = await containers()
    const before = counted.swaps
    races.push(behind(Id, ['racer', kind, '60000'], racer()).ended)
    await eventually('the race begins', () => counted.swaps > before)
    for (let at = 0; at < tar.length; at += 4096) yield tar.subarray(at, at + 4096)
  }
}

/** Tells the lines of a command that is killed in the end. */
async function listen(stream, line) {
  try {
    for await (const { data } of stream) Buffer.from(data).toString().split('\n').forEach(line)
  } catch (error) {
    // Where the proof fails, its session ends with the race under way.
    if (!['CANCELLED', 'RELEASED'].includes(error.code)) throw error
  }
}

async function attempt(what, operation) {
  try {
    await within(OPERATION_MS, what, operation)
    return 'done'
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    return error.code ?? String(error)
  }
}

/** A workspace whose tar takes a while, and has names that the racers use. */
async function fill(session) {
  const script = `mkdir -p d/sub; for i in $(seq 300); do echo inside >d/a$i; echo inside >d/sub/b$i; done
    for f in f w d/f d/w d/sub/f; do echo inside >$f; done; ln d/a1 d/hard; ln -s f d/soft`
  assert.equal((await session.exec({ command: 'sh', args: ['-c', script] })).exitCode, 0)
  await session.release({ status: 'suspended' })
}

/** A run whose tar went in goes on like any other. */
async function restored(owner, runId, look) {
  const session = await owner.acquire({ runId })
  try {
    for (const name of ['read', 'list', 'readStream']) await attempt(name, OPERATIONS[name](session, 1))
    await look((await containers())[0].Id)
  } finally {
    await session.release({ status: 'suspended' })
  }
}

const failureOrNothing = promise =>
  promise.then(
    () => undefined,
    error => error,
  )
const lookAt = id =>
  untouched(id).then(
    () => 'sound',
    error => error.message,
  )

async function removeAll() {
  for (const { Id } of await containers()) await client.removeContainer(Id)
}
