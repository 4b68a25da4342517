// The container is removed, killed or frozen behind the session's back.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { codeOf, engine, failureOf, lab, sh } from '../support/live.mjs'

const { client, containers, environment, leavesNothing } = lab()

const OPERATIONS = {
  exec: session => session.exec({ command: 'true' }),
  readFile: session => session.readFile('f'),
  writeFile: session => session.writeFile('f', 'x'),
  list: session => session.list(),
}

async function held(use, options) {
  const owner = environment(options)
  const runId = randomUUID()
  const session = await owner.acquire({ runId })
  try {
    await session.writeFile('f', 'kept')
    const [{ Id }] = await containers()
    await use({ owner, runId, session, id: Id })
  } finally {
    await session.release({ status: 'failed' })
    await owner.close()
    for (const { Id } of await containers()) await client.removeContainer(Id)
  }
}

for (const [how, act] of Object.entries({
  removed: id => client.removeContainer(id),
  killed: id => client.killContainer(id),
})) {
  test(`${how}: every operation says CONTAINER_LOST`, () =>
    held(async ({ session, id }) => {
      const running = failureOf(session.exec({ command: 'sleep', args: ['305'] }))
      await new Promise(resolve => setTimeout(resolve, 300))
      await act(id)
      assert.equal((await running).code, 'CONTAINER_LOST')
      for (const [name, operation] of Object.entries(OPERATIONS)) {
        const error = await failureOf(operation(session))
        assert.equal(error.code, 'CONTAINER_LOST', `${name}: ${error.code} ${error.message}`)
        assert.ok(error.message.includes(id.slice(0, 12)), error.message)
      }
    }))

  test(`${how} while the run waits: the workspace comes back from the snapshot`, () =>
    held(async ({ owner, runId, session, id }) => {
      await sh(
        session,
        'mkdir -p d/e; printf "\\001\\377" >d/e/b; chmod 600 d/e/b; ln -s ../f d/l; chmod 750 d; mkdir empty; mkfifo p 2>/dev/null; touch -d "2001-02-03 04:05:06" f; rm -f p',
      )
      const look =
        'find . | sort; stat -c "%a %u:%g %s %n" d d/e/b empty f; stat -c %Y f d/e/b; readlink d/l; cat f; od -An -tx1 d/e/b'
      const before = await sh(session, look)
      await session.release({ status: 'waiting_approval' })
      await act(id)
      const again = await owner.acquire({ runId })
      try {
        assert.equal(await sh(again, look), before)
        const found = await containers()
        assert.equal(found.length, 1)
        assert.notEqual(found[0].Id, id)
        await again.writeFile('more', 'x')
      } finally {
        await again.release({ status: 'completed' })
      }
      assert.deepEqual(await containers(), [])
    }))

  test(`${how} while held after an earlier wait: the snapshot is stale, and is not passed off as the workspace`, () =>
    held(async ({ owner, runId, session }) => {
      await session.release({ status: 'waiting_approval' })
      const again = await owner.acquire({ runId })
      await again.writeFile('f', 'newer')
      const [{ Id }] = await containers()
      await act(Id)
      assert.equal(await codeOf(again.list()), 'CONTAINER_LOST')
      // The holder still holds it: nobody else may have it.
      assert.equal((await failureOf(owner.acquire({ runId }))).name, 'ConflictError')
      await again.release({ status: 'suspended' })
      assert.equal(await codeOf(owner.acquire({ runId })), 'SNAPSHOT_INVALID')
    }))

  test(`${how} before there was a snapshot: CONTAINER_LOST`, () =>
    held(async ({ owner, runId, session, id }) => {
      await act(id)
      await session.release({ status: 'suspended' })
      assert.equal(await codeOf(owner.acquire({ runId })), 'CONTAINER_LOST')
    }))
}

test('frozen: a command ends at its limit, and the session goes on when it thaws', () =>
  held(async ({ session, id }) => {
    const running = session.exec({ command: 'sleep', args: ['305'], timeoutMs: 1_000 }).then(
      result => result.outcome,
      error => error.code,
    )
    await new Promise(resolve => setTimeout(resolve, 300))
    await engine('POST', `/containers/${id}/pause`)
    const from = performance.now()
    const ended = await running
    assert.ok(['timed_out', 'DOCKER_API'].includes(ended), ended)
    assert.ok(performance.now() - from < 15_000)
    assert.equal(await codeOf(session.list()), 'DOCKER_API')
    await engine('POST', `/containers/${id}/unpause`)
    assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  }))

test('frozen at a keeping release: its container keeps the workspace, and the run goes on when it thaws', () =>
  held(async ({ owner, runId, session, id }) => {
    await engine('POST', `/containers/${id}/pause`)
    await session.release({ status: 'waiting_approval' })
    await engine('POST', `/containers/${id}/unpause`)
    const again = await owner.acquire({ runId })
    assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept')
    const [{ Id }] = await containers()
    assert.equal(Id, id)
    await again.release({ status: 'completed' })
  }))

leavesNothing()
