// What may still call stores, a resolver and a listener of the application's own keeps them, though nothing else does: files that
// are read and written, connections of a run, a pool that is being filled.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { collectAll, collecting } from '../support/garbage.mjs'
import { keepingOnly } from '../support/keeping.mjs'
import { eventually, lab, sh, transport } from '../support/live.mjs'
import { serving, webServer } from '../support/network.mjs'

const { client, containers, environment, leavesNothing } = lab()
const PIECE = new Uint8Array(65_536)
const PIECES = 64
const acquired = owner => owner.acquire({ runId: randomUUID() })

/** A beat comes every 200 ms. */
const beating = objects => environment({ leaseMs: 600, ...objects })

/** Removes the containers of sessions that a test left nothing of. */
async function removeAll() {
  for (const { Id } of await containers()) await client.removeContainer(Id)
}

test('a session alone: its run, its network and its end', async () => {
  const server = webServer()
  await serving(server, async port => {
    const network = {
      mode: 'allowlist',
      allowedDomains: ['good.test'],
      allowedPorts: [port],
      allowPrivateNetworks: true,
    }
    const { held, count, goesOn, dropped } = await keepingOnly(objects => beating({ network, ...objects }), acquired)
    await goesOn('save')
    assert.match(await sh(held.kept, `wget -q -O - http://good.test:${port}/ 2>&1 || true`), /hello from good\.test/)
    assert.ok(count('good.test') > 0)
    await collectAll()
    await held.kept.release({ status: 'completed' })
    await eventually('it is told', () => count('released') === 1)
    assert.deepEqual([count('remove'), count('heartbeat_failed'), await containers()], [1, 0, []])
    await dropped()
  })
})

/** In a function of its own: one that goes on may hold what it used. */
async function useProcess(held) {
  await held.kept.spawned.write('text')
  await collectAll()
  await held.kept.spawned.end()
  const pieces = []
  for await (const { data } of held.kept.spawned) pieces.push(Buffer.from(data).toString())
  const { exitCode } = await held.kept.spawned.result
  return [pieces.join(''), exitCode]
}

test('a process alone, to its end', async () => {
  const { held, count, goesOn, dropped } = await keepingOnly(beating, async owner => {
    const session = await acquired(owner)
    return { spawned: await session.spawn({ command: 'cat' }) }
  })
  await goesOn('save')
  assert.deepEqual(await useProcess(held), ['text', 0])
  await goesOn('save')
  assert.equal(count('heartbeat_failed'), 0)
  await dropped()
  await removeAll()
})

if (transport !== 'exec') {
  test('a file that is read, by its iterator alone', async () => {
    const { held, count, goesOn, dropped } = await keepingOnly(
      objects => beating({ limits: { maxFileBytes: PIECE.length * PIECES }, ...objects }),
      async owner => {
        const session = await acquired(owner)
        await session.writeFile('f', new Uint8Array(PIECE.length * PIECES))
        return (await session.readFileStream('f'))[Symbol.asyncIterator]()
      },
    )
    let size = 0
    for (;;) {
      const { value, done } = await held.kept.next()
      if (done) break
      if (size === 0) await goesOn('save')
      size += value.length
    }
    assert.equal(size, PIECE.length * PIECES)
    assert.equal(count('heartbeat_failed'), 0)
    await dropped()
    await removeAll()
  })

  test('a file that is written, by its promise alone', async () => {
    let go
    const waiting = new Promise(resolve => (go = resolve))
    async function* pieces() {
      yield PIECE
      await waiting
      for (let n = 1; n < PIECES; n++) yield PIECE
    }
    const { held, count, goesOn, dropped } = await keepingOnly(beating, async owner => {
      const session = await acquired(owner)
      return { written: session.writeFileStream('f', pieces()) }
    })
    await goesOn('save')
    go()
    assert.deepEqual(await held.kept.written, { path: 'f', size: PIECE.length * PIECES })
    assert.equal(count('heartbeat_failed'), 0)
    await dropped()
    await removeAll()
  })

  test('a pool is filled and told of while only a session is left, and keeps nothing when that is gone', async () => {
    const { held, count, gone, dropped } = await keepingOnly(
      objects => environment({ pool: { size: 2 }, ...objects }),
      acquired,
    )
    await collecting('the pool is full', () => count('pooled') === 2)
    assert.deepEqual([...gone], [])
    await held.kept.release({ status: 'completed' })
    await dropped()
    // Their connections are gone with the environment; what is left of them would end by itself in a minute.
    await removeAll()
  })
}

leavesNothing()
