// A workspace that is full, and memory that is used up.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { BUSYBOX, DEBIAN, codeOf, failureOf, lab, sh, transport } from '../support/live.mjs'

const { client, containers, environment, inSession, leavesNothing, onBoth } = lab()
const MIB = 2 ** 20
const SMALL = { limits: { maxWorkspaceBytes: MIB, maxFileBytes: 2 * MIB } }

onBoth('a write that does not fit is LIMIT and leaves nothing, not even an empty file', SMALL, async session => {
  await session.writeFile('a', new Uint8Array(MIB - 4096))
  assert.deepEqual(await session.writeFile('b', new Uint8Array(4096)), { path: 'b', size: 4096 })
  for (const size of [1, 4096, MIB, 2 * MIB]) {
    const error = await failureOf(session.writeFile('c', new Uint8Array(size)))
    assert.equal(error.code, 'LIMIT', `${size}: ${error.message}`)
    assert.match(error.message, /full/)
  }
  // A file is replaced by way of a second one, which does not fit: the old one stays whole.
  assert.equal(await codeOf(session.writeFile('b', 'x')), 'LIMIT')
  assert.deepEqual(
    (await session.list()).entries.map(({ path, size }) => [path, size]),
    [
      ['a', MIB - 4096],
      ['b', 4096],
    ],
  )
  assert.equal((await session.readFile('a')).contents.length, MIB - 4096)
  // An empty file needs no room.
  assert.deepEqual(await session.writeFile('empty', ''), { path: 'empty', size: 0 })
  await sh(session, 'rm a')
  assert.deepEqual(await session.writeFile('b', 'again'), { path: 'b', size: 5 })
})

onBoth('a file that is deleted and held open keeps its room', SMALL, async session => {
  const { exitCode } = await session.exec({
    command: 'sh',
    args: [
      '-c',
      'exec 3>held; head -c 1048576 /dev/zero >&3; rm held; echo x >more 2>/dev/null && [ -s more ] && exit 5; exec 3>&-; echo x >more',
    ],
  })
  assert.equal(exitCode, 0)
  assert.equal((await session.readFile('more', { encoding: 'utf8' })).contents, 'x\n')
})

onBoth('no inode is left: LIMIT', { limits: { ...SMALL.limits, commandTimeoutMs: 30_000 } }, async session => {
  await sh(session, 'i=0; while { true >"f$i"; } 2>/dev/null; do i=$((i+1)); done')
  assert.equal(await codeOf(session.writeFile('one-more', '')), 'LIMIT')
  assert.equal(await codeOf(session.writeFile('d/e', 'x')), 'LIMIT')
  assert.equal((await session.list('.', { limit: 2000 })).entries.length, 1023)
})

for (const image of [BUSYBOX, DEBIAN]) {
  test(`a full workspace is kept and restored [${image.slice(13, -7)}]`, async () => {
    const owner = environment({ image, ...SMALL })
    const runId = randomUUID()
    const session = await owner.acquire({ runId })
    await sh(
      session,
      'cat /dev/urandom 2>/dev/null | head -c 1048576 >big 2>/dev/null; [ "$(stat -c %s big)" = 1048576 ]',
    )
    const sum = await sh(session, 'sha256sum big')
    await session.release({ status: 'waiting_approval' })
    const [{ Id }] = await containers()
    await client.removeContainer(Id)
    const again = await owner.acquire({ runId })
    try {
      assert.equal(await sh(again, 'sha256sum big'), sum)
    } finally {
      await again.release({ status: 'completed' })
      await owner.close()
    }
  })
}

// An exec transport cannot tell an OOM from another kill: then no outcome claims one.
const GREEDY = 'x=x; while :; do x=$x$x; done'

onBoth(
  'a command that eats all memory dies alone, and is not taken for something else',
  { limits: { memoryMb: 24, maxWorkspaceBytes: MIB, commandTimeoutMs: 20_000 } },
  async session => {
    await session.writeFile('state', 'kept')
    const { outcome, timedOut, exitCode } = await session.exec({ command: 'sh', args: ['-c', GREEDY] })
    assert.equal(timedOut, false)
    assert.ok(['exited', 'signaled', 'oom'].includes(outcome), outcome)
    if (outcome === 'exited') assert.notEqual(exitCode, 0)
    if (!session.capabilities.outcomes.includes('oom')) assert.notEqual(outcome, 'oom')
    assert.equal((await session.readFile('state', { encoding: 'utf8' })).contents, 'kept')
  },
)

test('a kill of ours is no OOM', () =>
  inSession({}, async session => {
    const killed = await session.exec({ command: 'sh', args: ['-c', 'sleep 306'], timeoutMs: 200 })
    assert.equal(killed.outcome, 'timed_out')
    const own = await session.exec({ command: 'sh', args: ['-c', 'sh -c "kill -9 \\$\\$"; exit $?'] })
    assert.deepEqual([own.outcome, own.exitCode], ['exited', 137])
  }))

/**
 * Whether an operation worked; where it did not, it says why: the container is lost, for memory, or, where scripts in the
 * container do the work, one of them did not come through.
 */
const worked = operation =>
  operation.then(
    () => true,
    ({ code, message }) => {
      if (code === 'CONTAINER_LOST') assert.match(message, /memory/)
      else assert.deepEqual([code, transport], ['DOCKER_API', 'exec'], message)
      return false
    },
  )

// A file in a workspace is memory that no process has, so that whatever is killed for it frees none: process 1 may be next.
for (const image of [BUSYBOX, DEBIAN]) {
  test(`a program fills a workspace as large as the memory: what works is right, what does not says why [${image.slice(13, -7)}]`, async () => {
    const lost = []
    const owner = environment({
      image,
      limits: { memoryMb: 16, maxWorkspaceBytes: 16 * MIB - 1, commandTimeoutMs: 20_000 },
      onEvent: event => event.type === 'container_lost' && lost.push(event),
    })
    const runId = randomUUID()
    const session = await owner.acquire({ runId })
    await session.writeFile('state', 'kept')
    await session.snapshot()
    const filling = session.exec({ command: 'sh', args: ['-c', 'cat /dev/zero >big'] })
    if (await worked(filling)) {
      const { outcome, exitCode } = await filling
      assert.ok(['exited', 'signaled', 'oom'].includes(outcome) && exitCode !== 0, `${outcome} ${exitCode}`)
    }
    const right = async of => {
      const read = of.readFile('state', { encoding: 'utf8' })
      if (await worked(read)) assert.equal((await read).contents, 'kept')
      const said = of.exec({ command: 'echo', args: ['on'] })
      if (await worked(said)) assert.equal((await said).stdout, 'on\n')
    }
    await right(session)
    await session.release({ status: 'suspended' })
    const again = await owner.acquire({ runId }).catch(async error => {
      // Once: the program's work is in no snapshot.
      assert.equal(error.code, 'SNAPSHOT_INVALID', error.message)
      assert.match(error.message, /its last work, which is lost/)
      assert.ok(lost.length > 0)
      const restored = await owner.acquire({ runId })
      assert.equal(await sh(restored, 'cat state; ls'), 'keptstate\n')
      return restored
    })
    await right(again)
    await again.release({ status: 'completed' })
    await owner.close()
    assert.deepEqual(await containers(), [])
  })
}

leavesNothing()
