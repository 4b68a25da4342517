// A child in the background neither keeps a command from ending nor outlives it.
import assert from 'node:assert/strict'
import { eventually, lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()
const shell = (session, script) => session.exec({ command: 'sh', args: ['-c', script] })
const alive = session =>
  sh(
    session,
    'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline" 2>/dev/null; echo; done | grep -Ec "(sleep|:) 30[3]" || :',
  ).then(Number)

const LEFT = {
  'that holds the output': ['sleep 303 & exit 3', 3, ''],
  'that goes on writing': ['(while :; do echo x; sleep 0.2; : 303; done) & exit 3', 3, /^(x\n)*$/],
  'in a session of its own': ['setsid sleep 303 & exit 0', 0, ''],
  'that was disowned twice': ['(setsid sh -c "sleep 303 & sleep 303" &) ; echo done; exit 5', 5, 'done\n'],
  'that gave up the output': ['sleep 303 >/dev/null 2>&1 </dev/null & exit 6', 6, ''],
  'without an environment': ['env -i sleep 303 & exit 7', 7, ''],
  'that ignores signals': ['(trap "" HUP TERM INT; sleep 303; sleep 303) & exit 8', 8, ''],
}

onBoth('a command ends when its main process does, whatever it leaves', {}, async session => {
  // What is looked for can be seen while its command lives, and not only in the shell's own line.
  const seen = shell(session, 'n=3; setsid sleep 30$n & env -i sleep 30$n & while ! [ -e seen ]; do sleep 0.1; done')
  await eventually('both are seen', async () => (await alive(session)) === 2)
  await session.writeFile('seen', '')
  assert.equal((await seen).exitCode, 0)
  for (const [what, [script, code, stdout]] of Object.entries(LEFT)) {
    const result = await shell(session, script)
    assert.deepEqual([result.outcome, result.exitCode, result.timedOut], ['exited', code, false], what)
    if (stdout instanceof RegExp) assert.match(result.stdout, stdout)
    else assert.equal(result.stdout, stdout, what)
    assert.ok(result.durationMs < 4_000, `${what}: ${result.durationMs}`)
    assert.equal(await alive(session), 0, what)
  }
})

onBoth('a zombie of a command does not stay, and process 1 lives', {}, async session => {
  await shell(session, 'for i in 1 2 3 4 5 6 7 8; do (setsid true &); done')
  const states = await sh(session, 'for p in /proc/[0-9]*/stat; do sed "s/.*) //" "$p" 2>/dev/null | cut -c1; done')
  assert.ok(!states.includes('Z'), states)
  await shell(session, 'kill -9 1; kill -TERM 1; kill -STOP 1')
  assert.equal(await sh(session, 'echo on'), 'on\n')
})

onBoth(
  'a fork bomb meets the process limit and is gone with its command',
  { limits: { pids: 40, commandTimeoutMs: 1_500 } },
  async session => {
    const { outcome } = await shell(session, 'b() { b | b & : 303; }; b; sleep 303')
    assert.ok(['timed_out', 'exited', 'signaled'].includes(outcome), outcome)
    assert.equal(await alive(session), 0)
    assert.equal(await sh(session, 'echo on'), 'on\n')
  },
)

onBoth(
  'a command that leaves no place for another process has its exit code all the same',
  { limits: { pids: 40, commandTimeoutMs: 30_000 } },
  async session => {
    const result = await shell(session, '(while :; do sleep 303 & done) 2>/dev/null; echo over >&2; exit 9')
    assert.deepEqual([result.outcome, result.exitCode, result.stderr], ['exited', 9, 'over\n'])
    assert.equal(await alive(session), 0)
    assert.equal(await sh(session, 'echo on'), 'on\n')
  },
)

onBoth(
  'what others start and end beside it changes nothing of how a command ends',
  { limits: { maxConcurrentProcesses: 24, pids: 256, commandTimeoutMs: 50_000 } },
  async session => {
    const restless = 'echo > "on.$1"; while ! [ -e enough ]; do /bin/true; (setsid /bin/true &); done'
    const noise = ['1', '2'].map(n => session.exec({ command: 'sh', args: ['-c', restless, 'sh', n] }))
    await eventually('they go round', async () => (await sh(session, 'ls')).split('\n').length === 3, 30_000)
    const ends = code => shell(session, `sleep 0.1; exit ${code}`)
    const codes = Array.from({ length: 8 }, (_, n) => n)
    const results = [...(await Promise.all(codes.map(ends))), await ends(8), await ends(9)]
    assert.deepEqual(
      results.map(({ outcome, exitCode }) => [outcome, exitCode]),
      [...codes, 8, 9].map(code => ['exited', code]),
    )
    // A process that is left is found all the same.
    assert.equal((await shell(session, 'setsid sleep 303 & exit 7')).exitCode, 7)
    assert.equal(await alive(session), 0)
    await session.writeFile('enough', '')
    const ended = (await Promise.all(noise)).map(({ outcome, exitCode }) => [outcome, exitCode])
    assert.deepEqual(ended, [
      ['exited', 0],
      ['exited', 0],
    ])
  },
)

leavesNothing()
