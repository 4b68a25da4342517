// The time limit ends the command with all that it started, and nothing else.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, lab, sh, transport } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()
const shell = (session, script, options) => session.exec({ command: 'sh', args: ['-c', script], ...options })
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** The command lines of all processes inside but process 1 and what looks. */
const processes = session =>
  sh(session, 'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline" 2>/dev/null; echo; done').then(text =>
    text.split('\n'),
  )
const running = async (session, what) => (await processes(session)).filter(line => line.startsWith(what))

// Each of these left something running in programs of this kind.
const STUBBORN = {
  'a child in the foreground': 'sleep 301',
  'a child that the shell waits for': 'sleep 301 & wait',
  'a chain of shells': 'sh -c "sh -c \\"sleep 301; touch late\\"; touch late"; touch late',
  'one that ignores signals': 'trap "" TERM INT HUP; sleep 301; sleep 301',
  'one that leaves the session': 'setsid sh -c "sleep 301; touch late" & wait',
  'one that forks on': 'f() { sleep 301 & sleep 301 & wait; }; f & f & f & wait',
  'one that closed its output': 'exec >&- 2>&-; sleep 301; touch late',
  'one without an environment': 'env -i sleep 301 & wait',
}

onBoth('at the limit everything of the command is killed', {}, async session => {
  await session.writeFile('state', 'kept')
  // What is looked for can be seen.
  const seen = shell(session, STUBBORN['one without an environment'], { timeoutMs: 2_000 })
  await eventually('it is seen', async () => (await running(session, 'sleep 301')).length === 1)
  assert.equal((await seen).outcome, 'timed_out')
  for (const [what, script] of Object.entries(STUBBORN)) {
    const { outcome, timedOut, truncated, durationMs } = await shell(session, `echo on; ${script}`, { timeoutMs: 250 })
    assert.deepEqual([outcome, timedOut, truncated], ['timed_out', true, false], what)
    assert.ok(durationMs >= 250 && durationMs < 3_000, `${what}: ${durationMs}`)
    assert.deepEqual(await running(session, 'sleep 301'), [], what)
  }
  const { entries } = await session.list()
  assert.deepEqual(
    entries.map(({ path }) => path),
    ['state'],
  )
  assert.equal((await session.readFile('state', { encoding: 'utf8' })).contents, 'kept')
})

onBoth('what was printed before the limit is there', {}, async session => {
  const { stdout, stderr, exitCode } = await shell(session, 'echo out; echo err >&2; sleep 30', { timeoutMs: 500 })
  assert.deepEqual([stdout, stderr], ['out\n', 'err\n'])
  assert.equal(exitCode, 137)
})

onBoth('a file that was to come later does not come', {}, async session => {
  const { timedOut } = await shell(session, '(sleep 1; touch late) & sleep 300 & wait', { timeoutMs: 100 })
  assert.equal(timedOut, true)
  await pause(1_200)
  assert.deepEqual((await session.list()).entries, [])
})

onBoth('another command of the run is not disturbed', {}, async session => {
  const [other, stopped] = await Promise.all([
    shell(session, 'echo a; sleep 1.5; echo b; exit 5'),
    shell(session, 'sleep 300', { timeoutMs: 300 }),
  ])
  assert.deepEqual([stopped.outcome, other.outcome, other.exitCode, other.stdout], ['timed_out', 'exited', 5, 'a\nb\n'])
})

test("a limit above the environment's is the environment's", () =>
  inSession({ limits: { commandTimeoutMs: 500 } }, async session => {
    for (const timeoutMs of [undefined, 60_000, Number.MAX_SAFE_INTEGER]) {
      const { outcome, durationMs } = await shell(session, 'sleep 300', timeoutMs === undefined ? {} : { timeoutMs })
      assert.equal(outcome, 'timed_out')
      assert.ok(durationMs >= 500 && durationMs < 3_000, String(durationMs))
    }
    assert.equal((await shell(session, 'exit 6', { timeoutMs: 60_000 })).exitCode, 6)
  }))

// Process 1 gets its turn late then; so late that it is given up it must not be.
const SPINNERS = 60

test(
  'sixty processes that spin on half a CPU: limits hold, results are right, and the container is not given up',
  { skip: transport === 'exec' },
  () => {
    const lost = []
    const onEvent = event => event.type === 'container_lost' && lost.push(event)
    const limits = {
      cpus: 0.5,
      pids: 3 * SPINNERS,
      maxConcurrentProcesses: SPINNERS + 3,
      commandTimeoutMs: 30_000,
    }
    // Over the other transport a kill is one more process that has to get its turn; it says so where it does not.
    return inSession({ limits, onEvent, transport: 'resident' }, async session => {
      const spinning = []
      for (let n = 0; n < SPINNERS; n++) {
        spinning.push(await session.spawn({ command: 'sh', args: ['-c', 'read go; while :; do :; done'] }))
      }
      for (const spinner of spinning) await spinner.write('go\n')
      const begun = performance.now()
      for (let n = 0; n < 10; n++) {
        const [late, quick] = await Promise.all([
          shell(session, 'while :; do :; done', { timeoutMs: 300 }),
          session.exec({ command: 'echo', args: [String(n)] }),
        ])
        assert.deepEqual([late.outcome, late.timedOut], ['timed_out', true], String(n))
        assert.ok(late.durationMs >= 300 && late.durationMs < 15_000, `${n}: ${late.durationMs} ms`)
        assert.deepEqual([quick.outcome, quick.exitCode, quick.stdout], ['exited', 0, `${n}\n`])
      }
      // As long as a host waits before it gives up what does not answer.
      await pause(Math.max(0, 26_000 - (performance.now() - begun)))
      assert.deepEqual(lost, [])
      assert.ok(Number(await sh(session, 'cat /proc/[0-9]*/status | grep -c "^State:.R"')) >= SPINNERS)
    })
  },
)

leavesNothing()
