// Output up to the cap is whole; past it the command is stopped and that is said.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lab, sh } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()
const MIB = 2 ** 20
const shell = (session, script) => session.exec({ command: 'sh', args: ['-c', script] })

onBoth('exactly the cap is whole, one byte more is cut; each stream has its own', {}, async session => {
  for (const [stream, redirect] of [
    ['stdout', ''],
    ['stderr', '>&2'],
  ]) {
    const exact = await shell(session, `head -c ${MIB} /dev/zero | tr "\\0" x ${redirect}; exit 4`)
    assert.deepEqual(
      [exact[stream].length, exact.truncated, exact.outcome, exact.exitCode],
      [MIB, false, 'exited', 4],
      stream,
    )
    const over = await shell(session, `head -c ${MIB + 1} /dev/zero | tr "\\0" x ${redirect}`)
    assert.deepEqual([over[stream].length, over.truncated, over.outcome], [MIB, true, 'output_limit'], stream)
  }
  const both = await shell(session, `head -c ${MIB} /dev/zero | tr "\\0" o; head -c ${MIB} /dev/zero | tr "\\0" e >&2`)
  assert.deepEqual([both.stdout.length, both.stderr.length, both.truncated, both.exitCode], [MIB, MIB, false, 0])
})

test("the cap is the option's", () =>
  inSession({ limits: { maxOutputBytes: 10 } }, async session => {
    const exact = await shell(session, 'printf 0123456789')
    assert.deepEqual([exact.stdout, exact.truncated, exact.outcome], ['0123456789', false, 'exited'])
    const over = await shell(session, 'printf 0123456789x; sleep 5; touch late')
    assert.deepEqual([over.stdout, over.truncated, over.outcome], ['0123456789', true, 'output_limit'])
    assert.ok(over.durationMs < 4_000, String(over.durationMs))
    const { entries } = await session.list()
    assert.deepEqual(entries, [])
  }))

test('a cap inside a character leaves the character out', () =>
  inSession({ limits: { maxOutputBytes: 4 } }, async session => {
    assert.equal((await shell(session, 'printf abcéz')).stdout, 'abc')
    assert.equal((await shell(session, 'printf aé😀')).stdout, 'aé')
    assert.equal((await shell(session, 'printf abé')).stdout, 'abé')
    assert.equal((await shell(session, 'printf "a\\377b"')).stdout, 'a\uFFFDb')
  }))

onBoth('what never ends is stopped, with both streams and without a line end', {}, async session => {
  const before = process.memoryUsage().rss
  for (const script of ['yes', 'cat /dev/zero', 'cat /dev/zero >&2', 'yes & yes >&2']) {
    const { outcome, truncated, timedOut, durationMs, stdout, stderr } = await shell(session, script)
    assert.deepEqual([outcome, truncated, timedOut], ['output_limit', true, false], script)
    assert.ok(stdout.length <= MIB && stderr.length <= MIB, script)
    assert.ok(durationMs < 8_000, `${script}: ${durationMs}`)
  }
  assert.ok(process.memoryUsage().rss - before < 200 * MIB)
  assert.match(
    await sh(session, 'ps -ef 2>/dev/null || for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done'),
    /^(?![^]*\b(yes|cat)\b)/,
  )
})

test("after a cut the session works on, and the code of a cut command is none of the program's", () =>
  inSession({}, async session => {
    const { outcome, exitCode, truncated } = await shell(session, 'head -c 5242880 /dev/zero; exit 9')
    assert.deepEqual([outcome, truncated], ['output_limit', true])
    assert.notEqual(exitCode, 0)
    assert.equal(await sh(session, 'echo on'), 'on\n')
  }))

leavesNothing()
