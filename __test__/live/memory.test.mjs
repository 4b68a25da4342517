// The memory of this process does not grow with what passed through it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lab } from '../support/live.mjs'

const { inSession, leavesNothing } = lab()
const MIB = 2 ** 20
const ROUNDS = 200
const AT_ONCE = 4

test(`${ROUNDS} outputs of a megabyte`, () =>
  inSession({}, async session => {
    const once = async () => {
      const { stdout } = await session.exec({ command: 'head', args: ['-c', String(MIB), '/dev/zero'] })
      assert.equal(stdout.length, MIB)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, once))
    const before = process.memoryUsage().rss
    for (let round = 0; round < ROUNDS / AT_ONCE; round++) await Promise.all(Array.from({ length: AT_ONCE }, once))
    const grown = (process.memoryUsage().rss - before) / MIB
    assert.ok(grown < 100, `${grown} MiB`)
  }))

test('100 files of a megabyte, written and read', () =>
  inSession({}, async session => {
    const contents = new Uint8Array(MIB).fill(1)
    const once = async () => {
      await session.writeFile('f', contents)
      assert.equal((await session.readFile('f')).contents.length, MIB)
    }
    await once()
    const before = process.memoryUsage().rss
    for (let round = 0; round < 50; round++) await once()
    const grown = (process.memoryUsage().rss - before) / MIB
    assert.ok(grown < 100, `${grown} MiB`)
  }))

leavesNothing()
