// What the caller does to its buffers after a call changes nothing.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { lab } from '../support/live.mjs'

const { environment, inSession, leavesNothing } = lab()

test('bytes are those at the time of the call, whatever becomes of the buffer', () =>
  inSession({}, async session => {
    const filled = new Uint8Array(500_000).fill(7)
    const writing = session.writeFile('a', filled)
    filled.fill(0)
    const transferred = new Uint8Array(500_000).fill(8)
    const moving = session.writeFile('b', transferred)
    structuredClone(transferred.buffer, { transfer: [transferred.buffer] })
    const input = new Uint8Array(500_000).fill(120)
    const running = session.exec({ command: 'sh', args: ['-c', 'tr -d x | wc -c'], stdin: input })
    input.fill(0)
    const shared = new Uint8Array(new SharedArrayBuffer(1_000)).fill(9)
    const sharing = session.writeFile('c', shared.subarray(10, 20))
    shared.fill(0)
    const [, , { stdout }] = await Promise.all([writing, moving, running, sharing])
    assert.ok((await session.readFile('a')).contents.every(byte => byte === 7))
    assert.ok((await session.readFile('b')).contents.every(byte => byte === 8))
    assert.deepEqual((await session.readFile('c')).contents, new Uint8Array(10).fill(9))
    assert.equal(Number(stdout), 0)
  }))

test('the seed of a workspace is copied when the environment is made', async () => {
  const contents = new Uint8Array(1_000).fill(5)
  const files = [{ path: 'f', contents }]
  const owner = environment({ workspace: { files } })
  contents.fill(0)
  files.push({ path: 'later', contents: 'x' })
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    assert.deepEqual((await session.readFile('f')).contents, new Uint8Array(1_000).fill(5))
    assert.equal((await session.list()).entries.length, 1)
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
})

leavesNothing()
