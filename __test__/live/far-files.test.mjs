// Files that are hard to reach: far into a hole, with names that a shell would shorten, in a workspace without rights.
import assert from 'node:assert/strict'
import { codeOf, lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()
const GIB = 2 ** 30

onBoth('a part far behind 4 GiB is read as fast as the first one', {}, async session => {
  await sh(session, 'printf end | dd of=hole bs=1048576 seek=6144 2>/dev/null')
  for (const [offset, contents] of [
    [6 * GIB, 'end'],
    [6 * GIB + 1, 'nd'],
    [6 * GIB - 2, '\0\0end'],
    [5 * GIB, '\0'.repeat(9)],
  ]) {
    const read = await session.readFile('hole', { encoding: 'utf8', offset, limit: 9 })
    assert.deepEqual([read.contents.slice(0, 9), read.size], [contents, 6 * GIB + 3], String(offset))
  }
  for (const offset of [6 * GIB + 3, 2 ** 52, Number.MAX_SAFE_INTEGER]) {
    assert.equal((await session.readFile('hole', { encoding: 'utf8', offset })).contents, '', String(offset))
  }
})

onBoth('a name may end in line ends', {}, async session => {
  for (const path of ['a\n', 'a\n\n', 'd\n/\n', '.\n']) {
    await session.writeFile(path, `in ${path}`)
    assert.equal((await session.readFile(path, { encoding: 'utf8' })).contents, `in ${path}`)
  }
  assert.deepEqual(
    (await session.list('d\n')).entries.map(entry => entry.path),
    ['d\n/\n'],
  )
})

onBoth('a workspace that a command closed answers with typed errors, and its run can be ended', {}, async session => {
  await session.writeFile('a', 'x')
  await sh(session, 'chmod 000 /workspace')
  assert.equal(await codeOf(session.readFile('a')), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFile('a', 'y')), 'PATH_INVALID')
  assert.equal(await codeOf(session.list()), 'PATH_INVALID')
  const result = await session.exec({ command: 'ls' })
  assert.deepEqual([result.outcome, result.exitCode], ['not_started', null])
})

onBoth(
  'variables of tar and of the locale do not reach the tar and the messages of the sandbox',
  {
    env: { TAR_OPTIONS: '--no-such-option', LC_ALL: 'de_DE.UTF-8' },
    workspace: { files: [{ path: 'seed', contents: 's' }] },
    limits: { maxWorkspaceBytes: 1024 * 1024, maxFileBytes: 1024 * 1024 },
  },
  async session => {
    assert.equal((await session.readFile('seed', { encoding: 'utf8' })).contents, 's')
    await sh(session, 'cat /dev/zero >big 2>/dev/null || :')
    assert.equal(await codeOf(session.writeFile('more', 'x'.repeat(5000))), 'LIMIT')
  },
)

leavesNothing()
