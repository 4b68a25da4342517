// Files of a real workspace: what was declared is there, what was written is read back, and listed, byte by byte.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf, lab, sh, transport } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()

const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, index) => index)
const SEED = {
  workspace: {
    directories: ['empty', 'src/deep/er'],
    files: [
      { path: 'README.md', contents: '# hi\n' },
      { path: 'bin/run.sh', contents: '#!/bin/sh\n', mode: 0o755 },
      { path: 'secret', contents: 's', mode: 0o600 },
      { path: 'bytes.bin', contents: EVERY_BYTE },
      { path: 'empty.txt', contents: '' },
      { path: 'shared', contents: '', mode: 0o666 },
      { path: 'shared.sh', contents: '', mode: 0o775 },
    ],
  },
}

onBoth('what the options declare is in the new workspace', SEED, async session => {
  assert.deepEqual((await session.list('.', { depth: 10 })).entries, [
    { path: 'README.md', type: 'file', size: 5, mode: 0o644 },
    { path: 'bin', type: 'directory', size: 0, mode: 0o755 },
    { path: 'bin/run.sh', type: 'file', size: 10, mode: 0o755 },
    { path: 'bytes.bin', type: 'file', size: 256, mode: 0o644 },
    { path: 'empty', type: 'directory', size: 0, mode: 0o755 },
    { path: 'empty.txt', type: 'file', size: 0, mode: 0o644 },
    { path: 'secret', type: 'file', size: 1, mode: 0o600 },
    { path: 'shared', type: 'file', size: 0, mode: 0o666 },
    { path: 'shared.sh', type: 'file', size: 0, mode: 0o775 },
    { path: 'src', type: 'directory', size: 0, mode: 0o755 },
    { path: 'src/deep', type: 'directory', size: 0, mode: 0o755 },
    { path: 'src/deep/er', type: 'directory', size: 0, mode: 0o755 },
  ])
  assert.deepEqual((await session.readFile('bytes.bin')).contents, EVERY_BYTE)
  assert.equal((await session.readFile('README.md', { encoding: 'utf8' })).contents, '# hi\n')
  assert.equal((await session.readFile('empty.txt', { encoding: 'utf8' })).contents, '')
  assert.equal(
    await sh(session, 'stat -c "%u:%g %a %n" README.md empty src/deep/er'),
    '65534:65534 644 README.md\n65534:65534 755 empty\n65534:65534 755 src/deep/er\n',
  )
})

onBoth('a nested path with names beyond ASCII is written, read, listed and given to a command', {}, async session => {
  const path = 'ü/日本/e\u0301 😀.txt'
  assert.deepEqual(await session.writeFile(path, 'grüße\n'), { path, size: 8 })
  assert.equal((await session.readFile(path, { encoding: 'utf8' })).contents, 'grüße\n')
  const { entries } = await session.list('ü', { depth: 3 })
  assert.deepEqual(
    entries.map(entry => [entry.path, entry.type, entry.size]),
    [
      ['ü/日本', 'directory', 0],
      [path, 'file', 8],
    ],
  )
  const { stdout, exitCode } = await session.exec({ command: 'cat', args: [path] })
  assert.deepEqual([stdout, exitCode], ['grüße\n', 0])
  const inside = await session.exec({ command: 'cat', args: ['e\u0301 😀.txt'], cwd: 'ü/日本' })
  assert.deepEqual([inside.stdout, inside.exitCode], ['grüße\n', 0])
})

onBoth('bytes go in and come out as they are, also in parts', {}, async session => {
  await session.writeFile('b', EVERY_BYTE, { mode: 0o640 })
  assert.deepEqual((await session.readFile('b')).contents, EVERY_BYTE)
  assert.equal(
    (await session.readFile('b', { encoding: 'base64' })).contents,
    Buffer.from(EVERY_BYTE).toString('base64'),
  )
  const part = await session.readFile('b', { offset: 250, limit: 4 })
  assert.deepEqual(part, {
    path: 'b',
    contents: Uint8Array.of(250, 251, 252, 253),
    encoding: 'bytes',
    offset: 250,
    size: 256,
    truncated: true,
  })
  assert.deepEqual((await session.readFile('b', { offset: 254 })).contents, Uint8Array.of(254, 255))
  const past = await session.readFile('b', { offset: 300 })
  assert.deepEqual([past.contents.length, past.size, past.truncated], [0, 256, false])
  assert.equal((await session.readFile('b', { limit: 0 })).contents.length, 0)
  assert.equal(await codeOf(session.readFile('b', { encoding: 'utf8' })), 'UNSUPPORTED')
  assert.equal((await session.list('.')).entries[0].mode, 0o640)
})

onBoth('text is cut at whole characters, and says so', {}, async session => {
  await session.writeFile('t', 'aé€😀z')
  const cut = await session.readFile('t', { encoding: 'utf8', offset: 2, limit: 5 })
  assert.deepEqual([cut.contents, cut.offset, cut.size, cut.truncated, cut.trimmed], ['€', 3, 11, true, true])
  const whole = await session.readFile('t', { encoding: 'utf8' })
  assert.deepEqual([whole.contents, whole.truncated, 'trimmed' in whole], ['aé€😀z', false, false])
})

onBoth('a written file replaces the old one whole, with its own mode', {}, async session => {
  await session.writeFile('f', 'longer than the next', { mode: 0o777 })
  await sh(session, 'exec 3<f; echo "$(cat <&3)" >copy; ln f other')
  await session.writeFile('f', 'short')
  assert.equal((await session.readFile('f', { encoding: 'utf8' })).contents, 'short')
  assert.equal((await session.readFile('other', { encoding: 'utf8' })).contents, 'longer than the next')
  assert.deepEqual(
    (await session.list('.')).entries.map(({ path, mode }) => [path, mode]),
    [
      ['copy', 0o644],
      ['f', 0o644],
      ['other', 0o777],
    ],
  )
})

test('a file may have the cap, and one byte more is refused', () =>
  inSession({ limits: { maxFileBytes: 1000 } }, async session => {
    assert.deepEqual(await session.writeFile('a', 'x'.repeat(1000)), { path: 'a', size: 1000 })
    assert.equal(await codeOf(session.writeFile('b', 'x'.repeat(1001))), 'LIMIT')
    // What a command writes is not bounded by it; reading gives the first part and says that there is more.
    await sh(session, 'head -c 1001 /dev/zero >c')
    const read = await session.readFile('c')
    assert.deepEqual([read.contents.length, read.size, read.truncated], [1000, 1001, true])
    assert.deepEqual(
      (await session.list('.')).entries.map(({ path }) => path),
      ['a', 'c'],
    )
  }))

onBoth('a listing is sorted, bounded and says when there is more', {}, async session => {
  await sh(session, 'mkdir -p d/e/f; touch c a b d/e/f/g; ln -s a l; mkfifo p')
  const names = listing => listing.entries.map(({ path, type }) => `${path} ${type}`)
  assert.deepEqual(names(await session.list()), ['a file', 'b file', 'c file', 'd directory', 'l symlink', 'p other'])
  assert.deepEqual(names(await session.list('d', { depth: 2 })), ['d/e directory', 'd/e/f directory'])
  assert.deepEqual(names(await session.list('/workspace/d/e/f')), ['d/e/f/g file'])
  const some = await session.list('.', { depth: 9, limit: 3 })
  assert.deepEqual([names(some), some.truncated], [['a file', 'b file', 'c file'], true])
  assert.equal((await session.list('.', { depth: 9, limit: 9 })).truncated, false)
})

test('however many files are asked for at once, each has its turn', () =>
  inSession({}, async session => {
    // More than process 1 takes at once; a docker exec of each is slow.
    const count = transport === 'exec' ? 12 : 200
    const files = Array.from({ length: count }, (_, n) => `f${n}`)
    await Promise.all(files.map(path => session.writeFile(path, path)))
    const reads = files.map(path => session.readFile(path, { encoding: 'utf8' }))
    const [entries] = await Promise.all([session.list('.'), ...reads])
    assert.equal(entries.entries.length, count)
    assert.deepEqual(
      (await Promise.all(reads)).map(({ contents }) => contents),
      files,
    )
    const abort = new AbortController()
    const writes = files.map(path => session.writeFile(path, 'new', { signal: abort.signal }))
    abort.abort()
    // What had its turn before is done.
    for (const { reason } of await Promise.allSettled(writes)) assert.equal(reason?.code ?? 'CANCELLED', 'CANCELLED')
    assert.equal((await session.writeFile('f0', 'x')).size, 1)
  }))

test('what is not there is NOT_FOUND', () =>
  inSession({}, async session => {
    assert.equal(await codeOf(session.readFile('no')), 'NOT_FOUND')
    assert.equal(await codeOf(session.readFile('no/such')), 'NOT_FOUND')
    assert.equal(await codeOf(session.list('no')), 'NOT_FOUND')
  }))

leavesNothing()
