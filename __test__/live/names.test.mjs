// Names that look like options, shell text or something else, and files of every size.
import assert from 'node:assert/strict'
import { lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()

const NAMES = [
  '-rf',
  '--checkpoint-action=exec=x',
  '-',
  '--',
  'a\nb',
  '$(id)',
  '`id`',
  "'",
  '"',
  ' ',
  'a b',
  '*',
  '?',
  '[a]',
  '~',
  '~root',
  '#x',
  '\\',
  'a\\nb',
  '%s',
  '{}',
  ';',
  '&',
  '|',
  '>x',
  '\t',
  '\x01',
  '\x7f',
  '.hidden',
  '...',
  '..x',
  'é',
  'e\u0301',
  '😀',
  'x'.repeat(255),
  '/workspace/-e',
  '\r',
  '!',
  '=',
  'C:',
  '\u202e',
]

onBoth('a name of any kind is written, read, listed and removed again', {}, async session => {
  const expected = NAMES.map(name => name.replace('/workspace/', '')).toSorted((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  )
  await Promise.all(NAMES.map((name, index) => session.writeFile(name, `${index} ${name}`)))
  const listed = await session.list()
  assert.deepEqual(
    listed.entries.map(({ path }) => path),
    expected,
  )
  await Promise.all(
    NAMES.map(async (name, index) => {
      assert.equal((await session.readFile(name, { encoding: 'utf8' })).contents, `${index} ${name}`)
    }),
  )
  assert.equal(await sh(session, 'rm -f -- * .h* ... ..x; ls -A'), '')
})

onBoth('such a name may be a directory', {}, async session => {
  for (const name of ['-rf', 'a\nb', '$(id)', "'", ' ', '*', '😀']) {
    await session.writeFile(`${name}/-x/f`, name)
    assert.deepEqual(
      (await session.list(name, { depth: 2 })).entries.map(({ path }) => path),
      [`${name}/-x`, `${name}/-x/f`],
    )
    assert.equal((await session.readFile(`${name}/-x/f`, { encoding: 'utf8' })).contents, name)
    assert.equal(await sh(session, 'pwd', { cwd: `${name}/-x` }), `/workspace/${name}/-x\n`)
  }
})

onBoth('a name of bytes that are no UTF-8 is listed as such', {}, async session => {
  await sh(session, 'touch "$(printf "a\\377b")"')
  assert.deepEqual(
    (await session.list()).entries.map(({ path }) => path),
    ['a\uFFFDb'],
  )
})

onBoth('a file of any size goes in and out', { limits: { maxFileBytes: 10 * 2 ** 20 } }, async session => {
  for (const size of [0, 1, 4095, 4096, 65_535, 65_536, 131_071, 131_072, 131_073, 1_048_577, 10 * 2 ** 20]) {
    const contents = Uint8Array.from({ length: size }, (_, index) => (index * 31 + (index >> 8)) % 256)
    assert.deepEqual(await session.writeFile('f', contents), { path: 'f', size })
    const read = await session.readFile('f')
    assert.equal(Buffer.compare(read.contents, contents), 0, String(size))
    assert.deepEqual([read.size, read.truncated], [size, false])
  }
})

onBoth('thousands of files are listed', { limits: { commandTimeoutMs: 30_000 } }, async session => {
  await sh(session, 'mkdir d; i=0; while [ $i -lt 5000 ]; do : >"d/file-with-a-longer-name-$i"; i=$((i+1)); done')
  const all = await session.list('.', { depth: 2, limit: 10_000 })
  assert.deepEqual([all.entries.length, all.truncated], [5_001, false])
  assert.equal(all.entries.at(-1).path, 'd/file-with-a-longer-name-999')
  const some = await session.list('d')
  assert.deepEqual([some.entries.length, some.truncated], [1_000, true])
})

leavesNothing()
