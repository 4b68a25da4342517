// Paths that lead out of the workspace, or through a link that a command made, are refused by every operation.
import assert from 'node:assert/strict'
import { createDockerSandboxTools } from '../../index.js'
import { codeOf, failureOf, lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()

const operationsOn = (session, path) => ({
  read: () => session.readFile(path),
  write: () => session.writeFile(path, 'x'),
  list: () => session.list(path),
})

const tools = createDockerSandboxTools()

/** The three tools on a path, as the runtime calls them. */
const toolsOn = (session, path) => {
  const context = { executionEnvironment: session }
  return {
    sandbox_read_file: () => tools.sandbox_read_file.execute({ path }, context),
    sandbox_write_file: () => tools.sandbox_write_file.execute({ path, contents: 'x' }, context),
    sandbox_list: () => tools.sandbox_list.execute({ path }, context),
  }
}

async function refused(session, paths) {
  for (const path of paths) {
    for (const [what, operation] of Object.entries({ ...operationsOn(session, path), ...toolsOn(session, path) })) {
      const error = await failureOf(operation())
      assert.equal(
        error.code,
        'PATH_INVALID',
        `${what} ${JSON.stringify(path).slice(0, 80)}: ${error.code} ${error.message}`,
      )
      assert.ok(error.message.length < 1_000)
    }
  }
}

onBoth('what leads out, and what is no path, is refused', {}, async session => {
  await refused(session, [
    '..',
    '../x',
    'a/../../x',
    'a/..',
    './..',
    '/workspace/../etc/passwd',
    '/etc/passwd',
    '/',
    '/workspacex',
    '//etc',
    'a\0b',
    '\0',
    'x'.repeat(256),
    'd/'.repeat(2_100),
    'é'.repeat(128),
    '\ud800',
    'a/b/'.repeat(40),
  ])
  await refused(
    session,
    [undefined, null, 5, {}, [], Symbol.iterator].slice(1).filter(path => typeof path !== 'symbol'),
  )
})

onBoth('a path may be spelt in several ways, and be as long as names may be', {}, async session => {
  for (const path of ['a/b', './a/b', 'a//b', 'a/./b', '/workspace/a/b', '/workspace//a/b']) {
    assert.equal((await session.writeFile(path, path)).path, 'a/b')
    assert.equal((await session.readFile('a/b', { encoding: 'utf8' })).contents, path)
  }
  const longest = 'x'.repeat(255)
  await session.writeFile(longest, '1')
  assert.deepEqual(
    (await session.list()).entries.map(({ path }) => path),
    ['a', longest],
  )
})

onBoth('a link that a command made is never followed', {}, async session => {
  await sh(
    session,
    `mkdir real; echo inside >real/f
    ln -s /etc dir; ln -s /etc/passwd file; ln -s /nowhere/x dangling; ln -s real near; ln -s real/f nearfile
    ln -s . self; ln -s loop loop; ln -s /workspace whole; ln -s /proc/self/root root; ln -s /proc/1/cwd cwd
    mkdir -p deep; ln -s /etc deep/dir`,
  )
  const leaves = ['file', 'dangling', 'nearfile', 'loop']
  const folders = ['dir', 'near', 'self', 'whole', 'root', 'cwd', 'deep/dir']
  for (const path of [...leaves, ...folders]) {
    assert.equal(await codeOf(session.readFile(path)), 'PATH_INVALID', `read ${path}`)
    assert.equal(await codeOf(session.writeFile(path, 'x')), 'PATH_INVALID', `write ${path}`)
    assert.equal(await codeOf(session.list(path)), 'PATH_INVALID', `list ${path}`)
  }
  await refused(
    session,
    folders.map(folder => `${folder}/passwd`),
  )
  await refused(session, ['self/self/real/f', 'near/f', 'whole/real/f', 'root/etc/passwd', 'dir/a/b/c'])
  for (const cwd of folders) {
    const { outcome } = await session.exec({ command: 'true', cwd })
    assert.equal(outcome, 'not_started', cwd)
  }
  // Nothing was written through any of them, and a listing names them without going in.
  assert.equal(await sh(session, 'cat real/f; ls real'), 'inside\nf\n')
  const { entries } = await session.list('.', { depth: 5 })
  const links = entries.filter(({ type }) => type === 'symlink').map(({ path }) => path)
  assert.deepEqual(links, [
    'cwd',
    'dangling',
    'deep/dir',
    'dir',
    'file',
    'loop',
    'near',
    'nearfile',
    'root',
    'self',
    'whole',
  ])
  assert.deepEqual(
    entries.filter(({ type }) => type !== 'symlink').map(({ path }) => path),
    ['deep', 'real', 'real/f'],
  )
})

onBoth('what is no regular file is refused, at once', {}, async session => {
  await sh(
    session,
    'mkfifo pipe; mkdir dir; truncate -s 1T hole 2>/dev/null || dd if=/dev/null of=hole bs=1 seek=1099511627776 2>/dev/null || :',
  )
  for (const path of ['pipe', 'dir']) {
    const from = performance.now()
    assert.equal(await codeOf(session.readFile(path)), 'PATH_INVALID', path)
    assert.equal(await codeOf(session.writeFile(path, 'x')), 'PATH_INVALID', path)
    assert.ok(performance.now() - from < 3_000)
  }
  assert.equal(await codeOf(session.list('pipe')), 'PATH_INVALID')
  assert.equal(await codeOf(session.readFile('pipe/x')), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFile('pipe/x', 'x')), 'PATH_INVALID')
  assert.equal(await codeOf(session.readFile('.')), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFile('.', 'x')), 'PATH_INVALID')
  assert.equal(await codeOf(session.writeFile('', 'x')), 'PATH_INVALID')
  // A hole of a terabyte, where the kernel makes one, is read as far as the cap.
  const hole = await session.readFile('hole')
  assert.ok(hole.contents.length <= 2 ** 20)
})

onBoth('a file that may not be read or replaced says so', {}, async session => {
  await sh(session, 'echo x >f; chmod 0 f; mkdir d; echo y >d/g; chmod 0500 d')
  assert.equal(await codeOf(session.readFile('f')), 'DENIED')
  assert.equal(await codeOf(session.writeFile('d/new', 'x')), 'DENIED')
  assert.equal((await session.readFile('d/g', { encoding: 'utf8' })).contents, 'y\n')
  assert.deepEqual(
    (await session.list('.', { depth: 2 })).entries.map(({ path, mode }) => [path, mode]),
    [
      ['d', 0o500],
      ['d/g', 0o644],
      ['f', 0],
    ],
  )
})

leavesNothing()
