// Commands: what they get, what they give, how they end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf, failureOf, lab, sh } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()

const run = async (session, script, options) => {
  const result = await session.exec({ command: 'sh', args: ['-c', script], ...options })
  assert.equal(typeof result.durationMs, 'number')
  return result
}
const bytes = length => Uint8Array.from({ length }, (_, index) => (index * 7 + (index >> 8)) % 128)

onBoth('a result has code, outcome and both streams apart, and no field too many', {}, async session => {
  const { durationMs, ...result } = await run(session, 'echo out; echo err >&2; printf "a\\r\\nb"; exit 3')
  assert.deepEqual(result, {
    exitCode: 3,
    outcome: 'exited',
    stdout: 'out\na\r\nb',
    stderr: 'err\n',
    truncated: false,
    timedOut: false,
  })
  assert.ok(durationMs > 0 && durationMs < 10_000, String(durationMs))
})

onBoth('a code that looks like a time-out or a signal is a code', {}, async session => {
  for (const code of [0, 1, 2, 124, 125, 126, 127, 130, 137, 143, 255]) {
    const { exitCode, outcome, timedOut } = await run(session, `exit ${code}`)
    assert.deepEqual([exitCode, outcome, timedOut], [code, 'exited', false], String(code))
  }
})

onBoth('a command that kills itself has not timed out', {}, async session => {
  const { timedOut, outcome, stdout } = await run(session, 'echo before; kill -9 $$')
  assert.deepEqual([timedOut, stdout], [false, 'before\n'])
  assert.ok(['exited', 'signaled'].includes(outcome), outcome)
})

onBoth('arguments arrive as they are', {}, async session => {
  const args = ['', ' ', 'a b', '$(id)', '`id`', "'", '"', '*', '~', '-n', '--', '\n', '\\', 'ü😀', '%s;&|<>']
  const { stdout } = await session.exec({
    command: 'sh',
    args: ['-c', 'for a; do printf "<%s>" "$a"; done', 'sh', ...args],
  })
  assert.equal(stdout, args.map(arg => `<${arg}>`).join(''))
})

onBoth(
  'standard input is a string, bytes, nothing, or a megabyte',
  { limits: { maxOutputBytes: 2 ** 21 } },
  async session => {
    const cat = async stdin => (await session.exec({ command: 'cat', stdin })).stdout
    assert.equal(await cat('grüße\n'), 'grüße\n')
    assert.equal(await cat(bytes(1)), '\0')
    assert.equal(await cat(''), '')
    assert.equal(await cat(undefined), '')
    assert.equal(await cat(new Uint8Array()), '')
    const megabyte = bytes(2 ** 20)
    assert.equal(await cat(megabyte), Buffer.from(megabyte).toString())
    const { exitCode } = await run(session, 'exit 7', { stdin: megabyte })
    assert.equal(exitCode, 7)
    assert.equal(await sh(session, 'cat >in; wc -c <in', { stdin: megabyte }).then(Number), 2 ** 20)
  },
)

onBoth(
  "the environment is ours, the options' and the command's; nothing of this process",
  { env: { A: 'of options', B: 'b' } },
  async session => {
    process.env.LIVE_TEST_SECRET = 'secret'
    const { stdout } = await session.exec({ command: 'env', env: { A: 'of command', C: 'ü\n=' } })
    const found = new Map(
      stdout
        .replace('ü\n=', 'ü=')
        .trim()
        .split('\n')
        .map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    )
    assert.deepEqual([found.get('A'), found.get('B'), found.get('C')], ['of command', 'b', 'ü='])
    assert.equal(found.get('LIVE_TEST_SECRET'), undefined)
    assert.equal(found.get('HOME'), '/workspace')
  },
)

onBoth('a command starts in the workspace or below it', { workspace: { directories: ['a/b'] } }, async session => {
  assert.equal(await sh(session, 'pwd'), '/workspace\n')
  assert.equal(await sh(session, 'pwd', { cwd: 'a/b' }), '/workspace/a/b\n')
  assert.equal(await sh(session, 'pwd', { cwd: '/workspace/a' }), '/workspace/a\n')
  assert.equal(await sh(session, 'pwd', { cwd: '.' }), '/workspace\n')
})

onBoth(
  'what cannot be started says so, and has no exit code',
  { workspace: { files: [{ path: 'f', contents: 'x' }] } },
  async session => {
    await sh(session, 'ln -s / link')
    const cases = [
      [{ command: 'no-such-program' }, /command not found/],
      [{ command: '/bin/no-such-program' }, /command not found/],
      [{ command: 'true', cwd: 'nowhere' }, /no such working directory/],
      [{ command: 'true', cwd: 'f' }, /no such working directory/],
      [{ command: 'true', cwd: 'link' }, /no such working directory/],
    ]
    for (const [request, message] of cases) {
      const { exitCode, outcome, stdout, stderr, timedOut } = await session.exec(request)
      assert.deepEqual([exitCode, outcome, stdout, timedOut], [null, 'not_started', '', false], JSON.stringify(request))
      assert.match(stderr, message)
    }
  },
)

onBoth('a built-in of the shell is no program', {}, async session => {
  const { outcome } = await session.exec({ command: 'unset' })
  assert.equal(outcome, 'not_started')
})

test('a program in the workspace runs only where that is allowed', async () => {
  const files = [
    { path: 'bin/hello', contents: '#!/bin/sh\necho "hello $1"\n', mode: 0o755 },
    { path: 'plain', contents: 'x' },
  ]
  await inSession({ workspace: { files } }, async session => {
    assert.equal(await codeOf(session.exec({ command: './bin/hello' })), 'DENIED')
    assert.equal(await codeOf(session.exec({ command: '/workspace/bin/hello' })), 'DENIED')
    const { exitCode } = await run(session, './bin/hello', {})
    assert.equal(exitCode, 126)
    assert.equal(await sh(session, 'sh bin/hello you'), 'hello you\n')
  })
  await inSession({ workspace: { files, exec: true } }, async session => {
    const { stdout, outcome } = await session.exec({ command: './bin/hello', args: ['you'] })
    assert.deepEqual([stdout, outcome], ['hello you\n', 'exited'])
    assert.equal((await session.exec({ command: '/workspace/bin/hello', args: ['me'] })).stdout, 'hello me\n')
    const plain = await session.exec({ command: './plain' })
    assert.deepEqual([plain.outcome, plain.exitCode], ['not_started', null])
  })
})

test('commands run at the same time, and no more than allowed', () =>
  inSession({ limits: { maxConcurrentProcesses: 2 } }, async session => {
    const one = () => run(session, 'mkdir "on.$$"; ls -d on.* | wc -l; sleep 0.3; rmdir "on.$$"')
    const results = await Promise.all([one(), one(), one(), one()])
    const seen = results.map(({ stdout }) => Number(stdout))
    assert.ok(Math.max(...seen) <= 2, String(seen))
    assert.ok(seen.includes(2), String(seen))
  }))

test('an argument or variable that the kernel does not take is refused by name', () =>
  inSession({}, async session => {
    const longest = 'x'.repeat(131_071)
    const { stdout } = await session.exec({ command: 'sh', args: ['-c', 'echo ${#1}', 'sh', longest] })
    assert.equal(stdout, '131071\n')
    const refused = [
      ['LIMIT', { args: [`${longest}x`] }],
      ['LIMIT', { args: Array(5000).fill('x') }],
      ['LIMIT', { env: { A: longest } }],
      ['CONFIG_INVALID', { args: ['a\0b'] }],
      ['CONFIG_INVALID', { env: { A: 'a\0b' } }],
      ['CONFIG_INVALID', { env: { 'A=B': 'x' } }],
      ['CONFIG_INVALID', { env: { '': 'x' } }],
      ['CONFIG_INVALID', { env: { '1A': 'x' } }],
    ]
    for (const [code, request] of refused) {
      const error = await failureOf(session.exec({ command: 'true', ...request }))
      assert.equal(error.code, code, error.message)
    }
  }))

leavesNothing()
