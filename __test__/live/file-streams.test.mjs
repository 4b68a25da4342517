// Files of any size, piece by piece.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf, failureOf, sh } from '../support/live.mjs'
import { lab, memoryOf, MIB } from '../support/streams.mjs'

const { inSession, leavesNothing } = lab()
const PIECE = 65_536
const LIMITS = { memoryMb: 600, maxWorkspaceBytes: 400 * MIB, maxFileBytes: 1024 }

async function* pieces(count, last = () => undefined) {
  for (let i = 0; i < count; i++) yield new Uint8Array(PIECE).fill(i)
  last()
}

async function bytesOf(stream) {
  const found = []
  for await (const piece of stream) found.push(piece)
  return Buffer.concat(found)
}

// Over the resident transport whichever the others have, and refused over the other one.
const resident = (title, options, use) =>
  test(title, () => inSession({ limits: LIMITS, ...options, transport: 'resident' }, use))

test('without the resident transport they are refused, with what to do', () =>
  inSession({ transport: 'exec' }, async session => {
    for (const refused of [() => session.readFileStream('f'), () => session.writeFileStream('f', pieces(1))]) {
      const { code, message } = await failureOf(refused())
      assert.deepEqual([code, /resident/.test(message)], ['UNSUPPORTED', true], message)
    }
    assert.deepEqual((await session.list()).entries, [])
  }))

resident('a file goes in and out whole, or in part', {}, async session => {
  async function* odd() {
    yield new Uint8Array()
    yield new Uint8Array([1])
    yield Buffer.from('grüße')
    yield new Uint8Array(3 * MIB).fill(255)
  }
  const expected = Buffer.concat([Buffer.from([1]), Buffer.from('grüße'), Buffer.alloc(3 * MIB, 255)])
  const written = await session.writeFileStream('./a/b', odd(), { mode: 0o600 })
  assert.deepEqual(written, { path: 'a/b', size: expected.length })
  const stream = await session.readFileStream('a/b')
  assert.deepEqual([stream.path, stream.size, stream.mode], ['a/b', expected.length, 0o600])
  assert.ok((await bytesOf(stream)).equals(expected))
  assert.equal((await bytesOf(stream)).length, 0)
  const part = await session.readFileStream('a/b', { offset: 1, limit: 4 })
  assert.equal((await bytesOf(part)).toString(), 'grü')
  assert.deepEqual(await session.writeFileStream('empty', pieces(0)), { path: 'empty', size: 0 })
  assert.equal((await bytesOf(await session.readFileStream('empty'))).length, 0)
})

resident('256 MiB leave memory as it is', {}, async session => {
  const write = count => session.writeFileStream('big', pieces(count))
  const read = async () => {
    let [length, sound] = [0, true]
    for await (const piece of await session.readFileStream('big')) {
      sound &&= piece[0] === (length >> 16) % 256
      length += piece.length
    }
    return [length, sound]
  }
  await write(1024)
  await read()
  const wrote = await memoryOf(async () => assert.equal((await write(4096)).size, 256 * MIB))
  const got = await memoryOf(async () => assert.deepEqual(await read(), [256 * MIB, true]))
  assert.ok(wrote < 16 && got < 16, `${wrote} and ${got} MiB`)
})

resident(
  'what fails half way leaves the old file and nothing else',
  { limits: { ...LIMITS, maxWorkspaceBytes: 16 * MIB } },
  async session => {
    await session.writeFile('f', 'old')
    const mine = new RangeError('mine')
    const throwing = pieces(20, () => {
      throw mine
    })
    assert.equal(await failureOf(session.writeFileStream('f', throwing)), mine)
    assert.equal(await codeOf(session.writeFileStream('f', pieces(1000))), 'LIMIT')
    async function* wrong() {
      yield new Uint8Array(9)
      yield 'text'
    }
    assert.equal(await codeOf(session.writeFileStream('f', wrong())), 'CONFIG_INVALID')
    const controller = new AbortController()
    async function* stuck() {
      yield new Uint8Array(PIECE)
      controller.abort(mine)
      await new Promise(() => undefined)
    }
    const error = await failureOf(session.writeFileStream('f', stuck(), { signal: controller.signal }))
    assert.deepEqual([error.code, error.cause], ['CANCELLED', mine])
    assert.equal(await sh(session, 'cat f; ls -A | wc -l'), 'old1\n')
  },
)

resident('refusals name what is wrong', {}, async session => {
  assert.equal(await codeOf(session.readFileStream('none')), 'NOT_FOUND')
  assert.equal(await codeOf(session.readFileStream('.')), 'PATH_INVALID')
  assert.equal(await codeOf(session.readFileStream('../x')), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFileStream('../x', pieces(1))), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFileStream('x', 'text')), 'CONFIG_INVALID')
  assert.equal(await codeOf(session.writeFileStream('x', pieces(1), { mode: 0o1000 })), 'PATH_INVALID')
  await sh(session, 'ln -s /etc/passwd link')
  assert.equal(await codeOf(session.readFileStream('link')), 'PATH_INVALID')
})

resident('a file that grows is read as far as it went, one that shrinks to where it ends', {}, async session => {
  await session.writeFileStream('f', pieces(32))
  const grown = await session.readFileStream('f')
  await sh(session, 'head -c 1000 /dev/zero >>f')
  assert.equal((await bytesOf(grown)).length, 32 * PIECE)
  const shrunk = await session.readFileStream('f')
  await sh(session, ': >f')
  const length = (await bytesOf(shrunk)).length
  assert.ok(length < 32 * PIECE, String(length))
})

// As many as process 1 has under way at once, whatever they are.
const AT_ONCE = 64

resident('each reading that is left makes room for another', {}, async session => {
  await session.writeFileStream('f', pieces(32))
  for (let i = 0; i < AT_ONCE + 6; i++) {
    const stream = await session.readFileStream('f')
    // Before the first piece, or after it.
    if (i % 2) await stream[Symbol.asyncIterator]().return()
    else for await (const _ of stream) break
  }
  assert.equal(await sh(session, 'echo on'), 'on\n')
})

resident('more operations than may be under way at once are refused, and nothing is lost', {}, async session => {
  // It costs no memory, and no reader comes to its end.
  await sh(session, 'truncate -s 300M f')
  const streams = await Promise.all(Array.from({ length: AT_ONCE }, () => session.readFileStream('f')))
  const operations = [
    () => session.readFileStream('f'),
    () => session.exec({ command: 'true' }),
    () => session.list(),
    () => session.writeFile('g', 'x'),
  ]
  const refused = async () => {
    for (const operation of operations) {
      const { code, message } = await failureOf(operation())
      assert.deepEqual([code, /too many operations at once/.test(message)], ['LIMIT', true], message)
    }
  }
  await refused()
  let enough = false
  const reading = streams.map(async stream => {
    for await (const _ of stream) if (enough) break
  })
  // A refusal has to find its way through all that is read.
  for (let i = 0; i < 20; i++) await refused()
  enough = true
  await Promise.all(reading)
  assert.equal(await sh(session, 'ls'), 'f\n')
})

resident('reading can be left, cancelled, and ends with the session', {}, async session => {
  await session.writeFileStream('f', pieces(320))
  for await (const piece of await session.readFileStream('f')) {
    assert.equal(piece[0], 0)
    break
  }
  const controller = new AbortController()
  const cancelled = await session.readFileStream('f', { signal: controller.signal })
  controller.abort('why')
  const error = await failureOf(bytesOf(cancelled))
  assert.deepEqual([error.code, error.cause], ['CANCELLED', 'why'])
  const unread = await session.readFileStream('f')
  const begun = Date.now()
  await session.release({ status: 'completed' })
  assert.ok(Date.now() - begun < 5000)
  assert.equal(await codeOf(bytesOf(unread)), 'RELEASED')
})

leavesNothing()
