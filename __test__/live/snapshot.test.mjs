// What is kept of a workspace: when asked for, every so often, and at a release; when no new tar is needed; what an older one
// is worth.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { BUSYBOX, DEBIAN, codeOf, engine, eventually, failureOf, lab, sh, transport } from '../support/live.mjs'
import { Leases, Snapshots } from '../support/stores.mjs'

const { client, containers, environment, leavesNothing } = lab()
const isExec = transport === 'exec'

/** A run with stores that show what was saved; it is ended whatever comes. */
async function held(use, options = {}) {
  const [leaseStore, snapshotStore] = [new Leases(), new Snapshots()]
  const saves = []
  const save = snapshotStore.save.bind(snapshotStore)
  snapshotStore.save = async (key, meta, tar) => {
    await save(key, meta, tar)
    saves.push(meta)
  }
  const owner = environment({ leaseStore, snapshotStore, ...options })
  const runId = randomUUID()
  const world = { owner, runId, leaseStore, snapshotStore, saves, lease: () => leaseStore.all()[0] }
  const acquire = async () => (world.session = await owner.acquire({ runId }))
  const lose = async () => {
    for (const { Id } of await containers()) await client.removeContainer(Id)
  }
  try {
    await acquire()
    await use({ ...world, acquire, lose, session: world.session, current: () => world.session })
  } finally {
    await world.session.release({ status: 'completed' })
    // One that a test left waiting.
    if (leaseStore.all().length > 0) await (await acquire()).release({ status: 'completed' })
    assert.deepEqual([leaseStore.all(), snapshotStore.size], [[], 0])
    await owner.close()
    await lose()
  }
}

const names = async session => (await session.list('.', { depth: 64 })).entries.map(({ path }) => path)

test('the workspace of snapshot() is what a run goes on with whose container was lost', () =>
  held(async ({ session, acquire, lose, lease, saves }) => {
    assert.equal(lease().snapshotState, 'none')
    await session.writeFile('a', '1')
    const meta = await session.snapshot()
    assert.deepEqual([meta], saves)
    assert.ok(Math.abs(meta.createdAt - Date.now()) < 60_000)
    assert.deepEqual([lease().snapshotState, lease().snapshotAt], ['current', meta.createdAt])
    // Looking changes nothing.
    assert.deepEqual(await names(session), ['a'])
    assert.equal(lease().snapshotState, 'current')
    await lose()
    assert.equal(await codeOf(session.list()), 'CONTAINER_LOST')
    await session.release({ status: 'suspended' })
    assert.equal(lease().snapshotState, 'current')
    assert.deepEqual(await names(await acquire()), ['a'])
  }))

test('work after it makes it stale before it begins; its loss is told once, then the run goes on from the snapshot', () =>
  held(async ({ session, runId, owner, acquire, lose, lease, leaseStore }) => {
    await session.writeFile('a', '1')
    await session.snapshot()
    const seen = []
    leaseStore.overrides.save = (record, fence) => {
      seen.push(record.snapshotState)
      delete leaseStore.overrides.save
      return leaseStore.save(record, fence)
    }
    await session.exec({ command: 'touch', args: ['b'] })
    assert.deepEqual([seen, lease().snapshotState], [['stale'], 'stale'])
    await lose()
    assert.equal(await codeOf(session.list()), 'CONTAINER_LOST')
    await session.release({ status: 'suspended' })
    assert.equal(lease().snapshotState, 'stale')
    const error = await failureOf(owner.acquire({ runId }))
    assert.equal(error.code, 'SNAPSHOT_INVALID')
    assert.match(error.message, /taken \d+ s ago, is older than its last work, which is lost\. Acquire the run again/)
    assert.deepEqual(await names(await acquire()), ['a'])
  }))

test('a snapshot that its process had no time to put on record is told like an older one', () =>
  held(async ({ session, runId, owner, acquire, lose, leaseStore }) => {
    await session.writeFile('a', '1')
    await session.release({ status: 'suspended' })
    leaseStore.put({ ...leaseStore.all()[0], snapshotState: 'none', snapshotAt: undefined })
    await lose()
    assert.equal(await codeOf(owner.acquire({ runId })), 'SNAPSHOT_INVALID')
    assert.deepEqual(await names(await acquire()), ['a'])
  }))

test('a snapshot that is not the one on record is not taken for it', () =>
  held(async ({ session, runId, owner, acquire, lose, leaseStore, snapshotStore, saves, lease }) => {
    await session.writeFile('a', '1')
    await session.release({ status: 'suspended' })
    // As a holder does that was stopped in the middle of a save, and went on after others had the run.
    const { key } = lease()
    const { meta, tar } = await snapshotStore.load(key)
    await snapshotStore.save(key, { ...meta, createdAt: meta.createdAt - 10_000 }, tar)
    saves.pop()
    await lose()
    assert.equal(await codeOf(owner.acquire({ runId })), 'SNAPSHOT_INVALID')
    assert.equal(lease().snapshotAt, meta.createdAt - 10_000)
    assert.deepEqual(await names(await acquire()), ['a'])
    assert.equal(leaseStore.all().length, 1)
  }))

test('an unchanged workspace makes no new tar', () =>
  held(async ({ session, acquire, saves, lease, snapshotStore }) => {
    await session.writeFile('a', '1')
    const first = await session.snapshot()
    assert.deepEqual(await session.snapshot(), first)
    await session.readFile('a')
    await session.list()
    await session.release({ status: 'waiting_approval' })
    assert.deepEqual([saves.length, lease().snapshotState], [1, 'current'])
    // One that waits, is looked at, and waits again.
    const second = await acquire()
    await second.readFile('a')
    await second.release({ status: 'waiting_approval' })
    assert.deepEqual([saves.length, lease().snapshotState, lease().snapshotAt], [1, 'current', first.createdAt])
    // Any operation that could have changed something counts, whatever it did.
    for (const change of [
      current => current.writeFile('a', '1'),
      current => current.exec({ command: 'true' }),
      current => current.execStream({ command: 'true' }).then(({ result }) => result),
      async current => void (await current.spawn({ command: 'sleep', args: ['307'] })),
      ...(isExec ? [] : [current => current.writeFileStream('a', [Buffer.from('2')])]),
    ]) {
      const before = saves.length
      const current = await acquire()
      assert.equal(lease().snapshotState, 'current')
      await change(current)
      assert.equal(lease().snapshotState, 'stale', String(change))
      await current.release({ status: 'waiting_approval' })
      assert.deepEqual([saves.length, lease().snapshotState], [before + 1, 'current'], String(change))
    }
    // A snapshot that somebody removed is made again.
    const current = await acquire()
    await snapshotStore.remove(lease().key)
    await current.release({ status: 'waiting_approval' })
    assert.equal(snapshotStore.size, 1)
  }))

test('a file that says it was not changed is saved all the same', () =>
  held(async ({ session, acquire, lose }) => {
    await sh(session, 'echo one >f; touch -d "2001-02-03 04:05:06" f')
    await session.snapshot()
    await sh(session, 'echo two >f; touch -d "2001-02-03 04:05:06" f')
    await session.snapshot()
    await lose()
    await session.release({ status: 'suspended' })
    assert.equal(await sh(await acquire(), 'cat f'), 'two\n')
  }))

test('work goes on while a snapshot is saved, which is then stale; never two at once', () =>
  held(async ({ session, snapshotStore, saves, lease }) => {
    await session.writeFile('a', '1')
    const { save } = snapshotStore
    const [waiting, counts] = [[], { now: 0, most: 0 }]
    snapshotStore.save = async (...args) => {
      counts.most = Math.max(counts.most, ++counts.now)
      await save(...args)
      await new Promise(resolve => waiting.push(resolve))
      counts.now--
    }
    const both = [session.snapshot(), session.snapshot()]
    await eventually('the first is saved', () => waiting.length === 1)
    await session.writeFile('b', '2')
    assert.deepEqual(await names(session), ['a', 'b'])
    waiting.shift()()
    // Work was done since the first began: the second is no repetition.
    await eventually('the second is saved', () => waiting.length === 1)
    assert.equal(lease().snapshotState, 'stale')
    waiting.shift()()
    // Which of two that are asked for at once comes first is nobody's business.
    const metas = (await Promise.all(both)).toSorted((one, other) => one.createdAt - other.createdAt)
    assert.deepEqual(metas, saves)
    assert.deepEqual([lease().snapshotState, lease().snapshotAt, counts.most], ['current', metas[1].createdAt, 1])
  }))

test('one that is aborted, or that the store fails, leaves the one before', () =>
  held(async ({ session, snapshotStore, lease, lose, acquire, owner, runId }) => {
    await session.writeFile('a', '1')
    const first = await session.snapshot()
    await session.writeFile('b', '2')
    const { save } = snapshotStore
    const [controller, reason] = [new AbortController(), new Error('enough')]
    let ended
    snapshotStore.save = async (key, meta, tar) => {
      controller.abort(reason)
      // Whoever asked waits until the store has let go.
      ended = save(key, meta, tar).then(
        () => 'saved',
        error => error.name,
      )
      await ended
      throw new Error('the tar threw')
    }
    const aborted = await failureOf(session.snapshot({ signal: controller.signal }))
    assert.deepEqual([aborted.code, aborted.cause], ['CANCELLED', reason])
    assert.notEqual(await ended, 'saved')
    snapshotStore.save = async () => {
      throw new Error('no room')
    }
    const failed = await failureOf(session.snapshot())
    assert.deepEqual([failed.code, failed.cause?.message], ['CONFIG_INVALID', 'no room'])
    assert.deepEqual([lease().snapshotState, lease().snapshotAt], ['stale', first.createdAt])
    assert.deepEqual(await names(session), ['a', 'b'])
    await lose()
    await session.release({ status: 'suspended' })
    assert.equal(await codeOf(owner.acquire({ runId })), 'SNAPSHOT_INVALID')
    assert.deepEqual(await names(await acquire()), ['a'])
  }))

test('a holder that has lost the run saves nothing', () =>
  held(async ({ session, snapshotStore, leaseStore, lease }) => {
    await session.writeFile('a', '1')
    const [first, was] = [await session.snapshot(), lease()]
    await session.writeFile('a', '2')
    const { save } = snapshotStore
    snapshotStore.save = async (key, meta, tar) => {
      // Taken over in the middle of it.
      leaseStore.put({ ...lease(), fence: was.fence + 1 })
      return save(key, meta, tar)
    }
    assert.equal((await failureOf(session.snapshot())).name, 'ConflictError')
    assert.deepEqual((await snapshotStore.load(was.key)).meta, first)
    leaseStore.put({ ...lease(), fence: was.fence })
    snapshotStore.save = save
  }))

test('checkpointMs: what changed is saved every so often, and nothing where nothing did', () => {
  const events = []
  const ofKind = kind => events.filter(({ type }) => type === kind).length
  const onEvent = event => events.push(event)
  return held(
    async ({ session, saves, lease, acquire, lose }) => {
      await session.writeFile('a', '1')
      await eventually('a checkpoint', () => lease().snapshotState === 'current')
      const before = saves.length
      assert.ok(before >= 1)
      await new Promise(resolve => setTimeout(resolve, 600))
      assert.equal(saves.length, before)
      // While a command runs, each one is another.
      const running = await session.spawn({ command: 'sleep', args: ['306'] })
      await eventually('checkpoints of work that goes on', () => saves.length >= before + 2)
      assert.equal(lease().snapshotState, 'stale')
      await running.kill()
      await session.writeFile('b', '1')
      await eventually('the last work', () => isExec || lease().snapshotState === 'current')
      await eventually('is told', () => ofKind('snapshot_saved') >= saves.length)
      assert.equal(ofKind('snapshot_failed'), 0)
      if (!isExec) {
        await lose()
        await session.release({ status: 'suspended' })
        assert.deepEqual(await names(await acquire()), ['a', 'b'])
      }
    },
    { checkpointMs: 100, onEvent },
  )
})

test('checkpointMs: a store that fails is told of and tried again, and a release waits for no tick', () => {
  const events = []
  return held(
    async ({ session, snapshotStore, lease, saves }) => {
      const { save } = snapshotStore
      snapshotStore.save = async () => {
        throw new Error('no')
      }
      await session.writeFile('a', '1')
      await eventually('it failed', () => events.filter(({ type }) => type === 'snapshot_failed').length >= 2)
      assert.equal(lease().snapshotState, 'none')
      snapshotStore.save = save
      await eventually('it is saved', () => lease().snapshotState === 'current')
      await session.writeFile('a', '2')
      await session.release({ status: 'suspended' })
      const count = saves.length
      await new Promise(resolve => setTimeout(resolve, 400))
      assert.deepEqual([saves.length, lease().holder, lease().snapshotState], [count, null, 'current'])
    },
    { checkpointMs: 100, onEvent: event => events.push(event) },
  )
})

const everything = image => [
  async ({ session, acquire, lose }) => {
    const long = 'n'.repeat(255)
    const deep = Array.from({ length: 60 }, (_, level) => `d${level}`).join('/')
    await sh(
      session,
      `set -e
      bad=$(printf 'bad-\\377\\376'); nl=$(printf 'a\\nb'); esc=$(printf 'esc\\033[2K\\r')
      for name in ${long} "$bad" "$(printf '\\377')" "$(printf '\\376')" "$nl" "$esc" -rf -- '--checkpoint-action=exec=x' ' ' 'a ' 'fo\\o' '*' '~' '$(id)' "'" '"' "$(printf '\\303\\251')" "$(printf 'e\\314\\201')" A a ss; do
        printf '%s' "$name" >"./$name"
      done
      mkdir -p ${deep}; echo deep >${deep}/f
      mkdir empty; mkdir -m 700 closed; mkdir -m 775 shared; mkdir -m 777 open
      for mode in 400 444 600 644 664 666 755 775 777; do echo $mode >m$mode; chmod $mode m$mode; done
      echo t >old; touch -d '1970-01-01 00:00:00' old; echo t >new; touch -d '2100-01-01 00:00:00' new
      ln -s ../../etc/passwd up; ln -s /workspace/old absolute; ln -s nowhere dangling; ln -s empty directory
      ln old hard; ln old deep-hard; head -c 300000 /dev/urandom >random; : >nothing`,
    )
    // With the exec transport the container's own tar unpacks: BusyBox's sets the times of files alone.
    // Each entry's kind, size, time, mode and links, its name, what it leads to and what it holds.
    const script = `look() {
        stat -c '%F %s %a' "$1"; printf '%s\\0' "$1" | od -An -v -tx1 | tr -d '\\n'
        [ -d "$1" ] || stat -c %h "$1"
        if [ -L "$1" ]; then readlink "$1"; elif [ -f "$1" ]; then md5sum <"$1"; fi
        ${isExec && image === BUSYBOX ? '[ -f "$1" ] && [ ! -L "$1" ] || return 0' : ''}
        stat -c %Y "$1"
      }
      walk() {
        for p in "$1"/* "$1"/.[!.]*; do
          [ -e "$p" ] || [ -L "$p" ] || continue
          look "$p"
          if [ -d "$p" ] && [ ! -L "$p" ]; then (walk "$p"); fi
        done
      }
      walk .`
    const before = await sh(session, script)
    assert.ok(before.includes(' 62 61 64 2d ff fe 00') && before.includes(' 61 0a 62 00'), before)
    await session.snapshot()
    await lose()
    await session.release({ status: 'suspended' })
    const after = (await sh(await acquire(), script)).split('\n')
    const were = before.split('\n')
    assert.deepEqual(
      after.filter((line, at) => line !== were[at]),
      were.filter((line, at) => line !== after[at]),
    )
  },
  { image },
]

test('everything that a name and a file may be comes back as it was', () => held(...everything(BUSYBOX)))

// With the other transport no program of the image has a part in it.
test('everything that a name and a file may be comes back as it was [GNU tar]', { skip: !isExec }, () =>
  held(...everything(DEBIAN)),
)

for (const image of isExec ? [BUSYBOX, DEBIAN] : [BUSYBOX]) {
  test(`no set-id bit comes back, and all other modes do [${image}]`, () =>
    held(
      async ({ session, acquire, lose }) => {
        await sh(session, 'touch f g; mkdir d; chmod 6775 f; chmod 2666 g; chmod 3777 d')
        await session.snapshot()
        await lose()
        await session.release({ status: 'suspended' })
        assert.equal(await sh(await acquire(), 'stat -c "%n %a" d f g'), 'd 777\nf 775\ng 666\n')
      },
      { image },
    ))
}

test('a hole takes no room when it comes back, where process 1 unpacks', () =>
  held(
    async ({ session, acquire, lose }) => {
      const blocks = current => sh(current, "stat -c '%s %b' hole; md5sum <hole")
      await sh(session, 'truncate -s 20M hole; printf end >>hole')
      const before = await blocks(session)
      assert.match(before, /^20971523 8\n/)
      await session.snapshot()
      await lose()
      await session.release({ status: 'suspended' })
      const after = await blocks(await acquire())
      // The container's own tar writes the zeros.
      assert.equal(after, isExec ? before.replace(' 8\n', ' 40968\n') : before)
    },
    { limits: { maxWorkspaceBytes: 64 * 1024 * 1024 } },
  ))

test('files that grow, shrink and go while they are saved make no broken snapshot', () =>
  held(async ({ session, acquire, lose }) => {
    await sh(
      session,
      'echo still >still; for i in $(seq 200); do echo $i >gone$i; done; head -c 8000000 /dev/zero >cut',
    )
    const busy = await session.spawn({
      command: 'sh',
      args: [
        '-c',
        'while :; do echo more >>grows; : >cut; echo x >cut; for i in $(seq 200); do rm -f gone$i; echo $i >gone$i; done; done',
      ],
    })
    let saved = 0
    for (let round = 0; round < 5; round++) {
      // One that is not whole is refused by its own tar at most, and never kept.
      await session.snapshot().then(
        () => saved++,
        error => assert.match(error.code, /^(SNAPSHOT_INVALID|DOCKER_API)$/),
      )
    }
    assert.ok(saved > 0)
    await busy.kill()
    await session.snapshot()
    await lose()
    await session.release({ status: 'suspended' })
    const again = await acquire()
    assert.equal(await sh(again, 'cat still; sort -u grows'), 'still\nmore\n')
  }))

/** Labels of an image. */
const labelsOf = async id => (await engine('GET', `/images/${encodeURIComponent(id)}/json`)).Config.Labels ?? {}
const committed = async () =>
  (await engine('GET', '/images/json')).filter(({ RepoTags }) => RepoTags?.some(tag => tag.startsWith('zhivex-')))

test('docker-commit: an image beside the tar, with our labels blank; replaced ones go, and all at the end', () =>
  held(
    async ({ session, acquire, lease, saves }) => {
      await session.writeFile('a', '1')
      await session.snapshot()
      const [first] = lease().imageIds
      assert.match(first, /^sha256:[0-9a-f]{64}$/)
      assert.deepEqual([lease().imageIds.length, saves.length, (await committed()).length], [1, 1, 1])
      const labels = await labelsOf(first)
      assert.ok(Object.keys(labels).length >= 7)
      for (const [name, value] of Object.entries(labels)) {
        if (name.startsWith('zhivex')) assert.equal(value, '', name)
      }
      // Unchanged: neither a tar nor an image.
      await session.snapshot()
      assert.deepEqual([lease().imageIds, saves.length], [[first], 1])
      await session.writeFile('a', '2')
      await session.release({ status: 'suspended' })
      const [second] = lease().imageIds
      assert.deepEqual([lease().imageIds.length, second === first, (await committed()).length], [1, false, 1])
      const again = await acquire()
      await again.release({ status: 'completed' })
      assert.deepEqual(await committed(), [])
    },
    { snapshot: 'docker-commit' },
  ))

test('docker-commit: an image that cannot be deleted stays on record until it is', () =>
  held(
    async ({ session, lease, owner }) => {
      await session.writeFile('a', '1')
      await session.snapshot()
      const [first] = lease().imageIds
      // In use by a container that runs.
      const { Id } = await engine('POST', '/containers/create', {
        Image: first,
        Entrypoint: ['/bin/sleep', '308'],
        Cmd: [],
        Labels: {},
      })
      try {
        await engine('POST', `/containers/${Id}/start`)
        await session.writeFile('a', '2')
        await session.snapshot()
        assert.deepEqual([lease().imageIds.length, lease().imageIds[0]], [2, first])
        await session.writeFile('a', '3')
        await session.release({ status: 'suspended' })
        assert.deepEqual([lease().imageIds.length, lease().imageIds[0]], [2, first])
        const { failures } = await owner.sweep()
        assert.equal(failures.length, 1)
        assert.match(failures[0], /replaced cannot be deleted/)
      } finally {
        await client.removeContainer(Id)
      }
      const { failures } = await owner.sweep()
      assert.deepEqual([failures, lease().imageIds.length, (await committed()).length], [[], 1, 1])
    },
    { snapshot: 'docker-commit' },
  ))

leavesNothing()
