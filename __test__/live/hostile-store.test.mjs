// Tars that lie, on their way into a workspace and out of it: a store that gives half a snapshot or a bad one, and an image whose
// tar does not do what it should. Nothing of them is taken, and what was good stays good.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { BUSYBOX, engine, failureOf, lab, sh } from '../support/live.mjs'
import { Leases, Snapshots, piecesOf } from '../support/stores.mjs'
import { END, entry as entryOf } from '../support/ustar.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()
const LIMIT_BYTES = 4 * 2 ** 20

/** A run whose container is lost, with its snapshot in a store of the application's own. */
async function lost(use) {
  const [leaseStore, snapshotStore, runId] = [new Leases(), new Snapshots(), randomUUID()]
  const limits = { maxWorkspaceBytes: LIMIT_BYTES }
  const owner = environment({ leaseStore, snapshotStore, limits, workspace: { id: 'w' } })
  let session = await owner.acquire({ runId })
  await sh(session, 'mkdir d; for n in 1 2 3; do head -c 5000 /dev/urandom >d/$n; done; ln -s d l; echo kept >kept')
  await session.release({ status: 'suspended' })
  for (const { Id } of await containers()) await client.removeContainer(Id)
  const [{ key }] = leaseStore.all()
  const { meta } = await snapshotStore.load(key)
  try {
    await use({ acquire: () => owner.acquire({ runId }), snapshotStore, meta, tar: snapshotStore.bytes(key) })
    snapshotStore.overrides = {}
    session = await owner.acquire({ runId })
    assert.equal(
      await sh(session, 'cat kept; find . | sort | tr "\\n" " "'),
      'kept\n. ./d ./d/1 ./d/2 ./d/3 ./kept ./l ',
    )
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
  assert.deepEqual([leaseStore.all(), snapshotStore.size], [[], 0])
}

/** An entry that belongs to the sandbox's user. */
const entry = (name, what) => entryOf(name, { owner: 65_534, ...what })

/** Archives of `bad` behind what is good, by what is bad of them. */
const BAD = {
  'a name that leads out': entry('../x', { size: 3 }),
  'an absolute name': entry('/etc/x', { size: 3 }),
  'a name that leads out further down': entry('d/../../x', { size: 3 }),
  'a device': entry('dev', { type: '3' }),
  'a pipe': entry('pipe', { type: '6' }),
  'a file through a link': entry('l/x', { size: 3 }),
  'a hard link out': entry('hard', { type: '1', link: '../../etc/passwd' }),
  'a file in place of a directory': entry('d', { size: 3 }),
  'more than the limit': entry('big', { size: LIMIT_BYTES + 1 }),
  'more than the limit together': Buffer.concat([1, 2, 3].map(n => entry(`b${n}`, { size: LIMIT_BYTES / 2 }))),
}

test('a snapshot of which a store gives a part only is refused, and the whole one is restored after', () =>
  lost(async ({ acquire, snapshotStore, meta, tar }) => {
    for (const length of [0, 1, 512, 513, Math.floor(tar.length / 2), tar.length - 1024, tar.length - 1]) {
      snapshotStore.overrides.load = () => ({ meta, tar: piecesOf([tar.subarray(0, length)]) })
      const error = await failureOf(acquire())
      assert.equal(error.code, 'SNAPSHOT_INVALID', `${length} of ${tar.length}: ${error.stack}`)
      assert.deepEqual(await containers(), [], String(length))
    }
  }))

test('a snapshot with what no snapshot may hold is refused, and the good one is restored after', () =>
  lost(async ({ acquire, snapshotStore, meta, tar }) => {
    const end = tar.length - END.length
    assert.ok(tar.subarray(end).every(byte => byte === 0))
    for (const [what, bad] of Object.entries(BAD)) {
      const pieces = [tar.subarray(0, end), bad, END]
      snapshotStore.overrides.load = () => ({ meta, tar: piecesOf(pieces) })
      const error = await failureOf(acquire())
      assert.match(error.code, /^(SNAPSHOT_INVALID|LIMIT)$/, `${what}: ${error.stack}`)
      assert.deepEqual(await containers(), [], what)
    }
    // What was done to it is what is wrong with it.
    snapshotStore.overrides.load = () => ({
      meta,
      tar: piecesOf([tar.subarray(0, end), entry('good', { size: 3 }), END]),
    })
    const session = await acquire()
    assert.equal(await sh(session, 'stat -c %s good; rm good'), '3\n')
    await session.release({ status: 'suspended' })
    for (const { Id } of await containers()) await client.removeContainer(Id)
  }))

/** BusyBox with a tar that does what a file in the workspace says. */
const LIAR = `sandbox-test/liar-${ownerId}:latest`
const TAR = `#!/bin/sh
case $(cat /workspace/how 2>/dev/null) in
nothing) ;;
half) /bin/busybox tar "$@" | head -c 1000 ;;
cut) /bin/busybox tar "$@" | head -c 1024 ;;
zeros) exec cat /dev/zero ;;
text) echo this is no tar ;;
other) exec /bin/busybox tar -c -f - -C / -- etc ;;
up) exec /bin/busybox tar -c -P -f - -C /workspace -- ../etc ;;
failure) /bin/busybox tar "$@"; exit 3 ;;
*) exec /bin/busybox tar "$@" ;;
esac
`

before(async () => {
  const { Id } = await engine('POST', '/containers/create', {
    Image: BUSYBOX,
    Cmd: ['/bin/sh', '-c', 'rm -f /bin/tar && printf %s "$TAR" >/bin/tar && chmod 755 /bin/tar'],
    Env: [`TAR=${TAR}`],
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    await engine('POST', `/containers/${Id}/start`)
    assert.equal((await engine('POST', `/containers/${Id}/wait`)).StatusCode, 0)
    const [repo, tag] = LIAR.split(':')
    await engine('POST', `/commit?container=${Id}&repo=${encodeURIComponent(repo)}&tag=${tag}`, { Env: [], Cmd: [] })
  } finally {
    await client.removeContainer(Id)
  }
})
after(() => client.removeImage(LIAR))

test('what a tar of the image says that is no tar of the workspace is never kept', async () => {
  const [leaseStore, snapshotStore, runId] = [new Leases(), new Snapshots(), randomUUID()]
  const limits = { maxWorkspaceBytes: LIMIT_BYTES }
  const owner = environment({ image: LIAR, transport: 'exec', leaseStore, snapshotStore, limits })
  let session = await owner.acquire({ runId })
  try {
    await sh(session, 'mkdir d; head -c 100000 /dev/urandom >d/random; echo kept >kept')
    const meta = await session.snapshot()
    const [{ key }] = leaseStore.all()
    const good = snapshotStore.bytes(key)
    for (const how of ['nothing', 'half', 'cut', 'zeros', 'text', 'other', 'up', 'failure']) {
      await session.writeFile('how', how)
      const error = await failureOf(session.snapshot())
      assert.match(error.code, /^(SNAPSHOT_INVALID|LIMIT|DOCKER_API|NOT_FOUND)$/, `${how}: ${error.stack}`)
      const now = await snapshotStore.load(key)
      assert.deepEqual(now.meta, meta, how)
      assert.deepEqual(snapshotStore.bytes(key), good, how)
    }
    await session.writeFile('how', 'as it should')
    await session.snapshot()
    await session.release({ status: 'suspended' })
    for (const { Id } of await containers()) await client.removeContainer(Id)
    session = await owner.acquire({ runId })
    assert.equal(await sh(session, 'cat kept how'), 'kept\nas it should')
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
})

leavesNothing()
