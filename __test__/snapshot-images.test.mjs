// Images of `snapshot: "docker-commit"` whose commit fails, or whose maker dies before it: one is made the next time, whether the
// workspace changed meanwhile or not, and nothing piles up on the lease.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryDockerClient } from '../index.js'
import { Leases, Snapshots, environment, eventually, failureOf } from './support/stores.mjs'

const MADE = /^sha256:[0-9a-f]{64}$/

/** A run over an engine whose commits with these numbers fail; what it is left with is removed at the end. */
async function held(failing, use) {
  const fail = failing.map(nth => ({ method: 'commitContainer', nth, message: 'no room on the disk' }))
  const [client, leaseStore, snapshotStore, events] = [
    createMemoryDockerClient({ fail }),
    new Leases(),
    new Snapshots(),
    [],
  ]
  const onEvent = event => events.push(event)
  const owner = environment({ client, leaseStore, snapshotStore, ownerId: 'o', snapshot: 'docker-commit', onEvent })
  const acquire = () => owner.acquire({ runId: 'r' })
  const images = () => leaseStore.all()[0].imageIds
  const ends = await use({ client, leaseStore, events, owner, acquire, images, session: await acquire() })
  await ends.release({ status: 'completed' })
  assert.deepEqual([leaseStore.all(), snapshotStore.size], [[], 0])
  await owner.close()
}

test('a commit that failed is made up for by the next snapshot, though nothing changed', () =>
  held([2], async ({ client, session, images, leaseStore }) => {
    await session.writeFile('a', '1')
    await session.snapshot()
    const [first] = images()
    await session.writeFile('a', '2')
    assert.match((await failureOf(session.snapshot())).message, /no room on the disk/)
    assert.equal(leaseStore.all()[0].snapshotState, 'current')
    assert.equal(images()[0], first, 'the last image stays until there is another')
    await session.snapshot()
    assert.equal(images().length, 1)
    assert.match(images()[0], MADE)
    assert.notEqual(images()[0], first)
    assert.equal((await failureOf(client.inspectImage(first))).code, 'NOT_FOUND')
    return session
  }))

test('a commit that failed at a release is made up for by the next release, though nothing changed', () =>
  held([1], async ({ session, acquire, images, events }) => {
    await session.writeFile('a', '1')
    // A listener may be told a moment after the release is done.
    const told = () => events.filter(({ type }) => type.startsWith('release')).map(({ type, undone }) => [type, undone])
    await session.release({ status: 'suspended' })
    await eventually('the release is told', () => told().length === 1)
    assert.deepEqual(told(), [['release_failed', 'snapshot']])
    const again = await acquire()
    await again.release({ status: 'suspended' })
    await eventually('the second is told', () => told().length === 2)
    assert.deepEqual(told()[1], ['released', undefined])
    assert.equal(images().length, 1)
    assert.match(images()[0], MADE)
    return acquire()
  }))

test('names of images that were never made do not pile up', () =>
  held([2, 3, 4, 5], async ({ session, images, owner }) => {
    await session.writeFile('a', '1')
    await session.snapshot()
    const [first] = images()
    for (let n = 0; n < 4; n++) {
      await session.writeFile('a', String(n))
      await failureOf(session.snapshot())
      assert.deepEqual([images().length, images()[0]], [2, first])
    }
    await session.writeFile('a', '2')
    await session.snapshot()
    assert.equal(images().length, 1)
    assert.match(images()[0], MADE)
    assert.deepEqual((await owner.sweep()).failures, [])
    return session
  }))

test('a snapshot that is aborted before its image is made up for too', () =>
  held([], async ({ session, images, leaseStore }) => {
    await session.writeFile('a', '1')
    await session.snapshot()
    const [first] = images()
    await session.writeFile('a', '2')
    const controller = new AbortController()
    // The tar is kept, and that is what is written.
    leaseStore.overrides.save = (lease, fence) => {
      if (lease.snapshotState === 'current') controller.abort()
      const { save } = leaseStore.overrides
      delete leaseStore.overrides.save
      return leaseStore
        .save(lease, fence)
        .finally(() => controller.signal.aborted || (leaseStore.overrides.save = save))
    }
    // The abort is heard before the image is begun, or just too late to matter.
    const end = await session.snapshot({ signal: controller.signal }).then(
      () => 'saved',
      ({ code }) => code,
    )
    assert.ok(['CANCELLED', 'saved'].includes(end), end)
    assert.ok(controller.signal.aborted)
    await session.snapshot()
    assert.equal(images().length, 1)
    assert.notEqual(images()[0], first)
    return session
  }))

test('an image is not deleted for the name of one that was never made', () =>
  held([], async ({ client, session, acquire, images, leaseStore, owner }) => {
    await session.writeFile('a', '1')
    await session.release({ status: 'suspended' })
    const [first] = images()
    // As a process leaves it that dies before the engine has made the image.
    const name = `zhivex-sandbox/${'0'.repeat(32)}:${'0'.repeat(24)}.${'0'.repeat(16)}.`
    leaseStore.put({ ...leaseStore.all()[0], imageIds: [first, name] })
    assert.deepEqual((await owner.sweep()).failures, [])
    assert.deepEqual(images(), [first, name])
    assert.ok((await client.inspectImage(first)).Id)
    const again = await acquire()
    await again.release({ status: 'suspended' })
    assert.equal(images().length, 1)
    assert.match(images()[0], MADE)
    assert.notEqual(images()[0], first)
    return acquire()
  }))
