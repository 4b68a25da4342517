// Variables reach the command as they are, and change nothing of what the sandbox itself does with a shell.
import assert from 'node:assert/strict'
import { lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()

/** What a command sees, read without a shell in between. */
const seen = async (session, env) => {
  const { stdout, outcome, exitCode } = await session.exec({ command: 'cat', args: ['/proc/self/environ'], env })
  assert.deepEqual([outcome, exitCode], ['exited', 0])
  const lines = stdout.split('\0').slice(0, -1)
  return Object.fromEntries(lines.map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
}

// One-letter names and those of loops are what scripts of a sandbox like to use themselves.
const LETTERS = Object.fromEntries([...'abcdefghijklmnopqrstuvwxyzE'].map(letter => [letter, `<${letter}>`]))

onBoth(
  'names that a shell or a script may use arrive with their values',
  { env: { n: 'outer', d: 'outer', FOO: 'a  b' } },
  async session => {
    const without = await seen(session)
    assert.deepEqual([without.n, without.d, without.FOO], ['outer', 'outer', 'a  b'])
    const hostile = {
      ...LETTERS,
      IFS: 'x/',
      ENV: '/workspace/evil',
      BASH_ENV: '/workspace/evil',
      PS4: '$(touch pwned)',
      CDPATH: '/etc',
      OLDPWD: '/x',
      PWD: '/etc',
      HOME: '/x',
      TAR_OPTIONS: '--bogus',
      GREP_OPTIONS: '-v',
      LC_ALL: 'xx',
      UID: '5',
      PPID: '1',
      EMPTY: '',
      TEXT: 'a\nb"$(touch pwned)`touch pwned`\'\\',
      PATH: '/nowhere*:/usr/b in:/bin:/usr/bin',
    }
    await session.writeFile('evil', 'touch /workspace/pwned')
    const found = await seen(session, hostile)
    for (const [name, value] of Object.entries(hostile)) assert.equal(found[name], value, name)
    assert.deepEqual(
      Object.keys(found).filter(name => name.startsWith('zx_')),
      [],
    )
    assert.deepEqual(
      (await session.list()).entries.map(entry => entry.path),
      ['evil'],
    )
  },
)

onBoth('a shell that dislikes a variable runs the command all the same', {}, async session => {
  for (const env of [
    { OPTIND: 'x' },
    { LD_PRELOAD: '/workspace/none.so' },
    { SHELLOPTS: 'xtrace', PS4: '+' },
    { LC_ALL: 'xx_YY.UTF-8' },
  ]) {
    const { outcome, exitCode, stdout } = await session.exec({ command: 'echo', args: ['here'], env })
    assert.deepEqual([outcome, exitCode, stdout], ['exited', 0, 'here\n'], JSON.stringify(env))
  }
})

onBoth("a command's own PATH finds its program, and hides nothing from the end of the command", {}, async session => {
  const missing = await session.exec({ command: 'ls', env: { PATH: '/nowhere' } })
  assert.deepEqual([missing.outcome, missing.stderr], ['not_started', 'ls: command not found\n'])
  const env = { PATH: '/nowhere', ZHIVEX_EXEC_ID: 'forged' }
  const script = '/usr/bin/setsid /bin/sleep 654 >/dev/null 2>&1 & /bin/sleep 0.2'
  await session.exec({ command: '/bin/sh', args: ['-c', script], env })
  // The pattern does not match the text that it stands in.
  assert.equal(await sh(session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 65[4]' || :"), '0\n')
})

leavesNothing()
