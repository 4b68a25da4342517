// Twenty processes want one run at the same moment: a new one, one that waits, one whose holder was killed. Each time one of
// them has it, with all that was in its workspace, and the others have a conflict and leave nothing.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createFileLeaseStore } from '../../index.js'
import { BUSYBOX, engine, lab, socketPath, transport } from '../support/live.mjs'
import { acquires } from './support/lengths.mjs'

const PROCESSES = 20
/** So long before the moment they are told of it; on a busy machine some hear late, and then want the run at once. */
const NOTICE_MS = 150
/** Where a machine has no id, nobody can tell that a process of it has ended, and a holder is dead when it is silent. */
const SILENCE_MS = 21_000
/** What nobody waits for longer. */
const ANSWER_MS = 90_000

const { containers, leavesNothing, ownerId } = lab()
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
const directory = mkdtempSync(join(tmpdir(), 'soak-acquire-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const ACQUIRER = fileURLToPath(new URL('support/acquirer.mjs', import.meta.url))
const hasMachineId = existsSync('/etc/machine-id') && readFileSync('/etc/machine-id', 'utf8').trim() !== ''

/** A process that acquires; `ask` sends it a line and resolves to its answer. */
function acquirer(image) {
  const options = {
    socketPath,
    ownerId,
    image,
    transport,
    pull: 'never',
    shell: 'allow',
    workspace: { id: 'w' },
    limits: { cpus: 2 },
    directory,
  }
  const child = spawn(process.execPath, [ACQUIRER, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const waiting = []
  createInterface({ input: child.stdout }).on('line', line => waiting.shift()?.(JSON.parse(line)))
  const ended = new Promise(resolve => {
    child.on('close', (code, signal) => {
      for (const answer of waiting.splice(0)) answer(['ended', code, signal])
      resolve([code, signal])
    })
  })
  const ask = (...line) => {
    const answer = new Promise(resolve => waiting.push(resolve))
    child.stdin.write(`${JSON.stringify(line)}\n`)
    // Not held up by the timer of an answer that came.
    const silence = new Promise(resolve => setTimeout(resolve, ANSWER_MS, ['silent']).unref())
    return Promise.race([answer, silence])
  }
  return { ask, ended, kill: () => child.kill('SIGKILL'), end: () => child.stdin.end() }
}

/** The image of whoever started the engine: the proofs' own, or that of the tests. */
async function imageHere() {
  const tags = (await engine('GET', '/images/json')).flatMap(({ RepoTags }) => RepoTags ?? [])
  return ['sandbox-test/racer:latest', BUSYBOX].find(name => tags.includes(name)) ?? BUSYBOX
}

const files = () => readdirSync(directory).filter(name => !name.startsWith('.lock-'))

test(`${PROCESSES} processes want one run, ${acquires} times`, async t => {
  const image = await imageHere()
  const leases = createFileLeaseStore({ directory })
  const processes = Array.from({ length: PROCESSES }, () => acquirer(image))
  const winners = new Set()
  let [runId, expected] = [randomUUID(), {}]
  try {
    for (let round = 0; round < acquires; round++) {
      // A run that is new, then waits, then was its dead holder's.
      const kind = ['new', 'waiting', 'orphaned'][round % 3]
      const moment = Date.now() + NOTICE_MS
      const answers = await Promise.all(processes.map(each => each.ask('acquire', runId, moment)))
      const what = `round ${round} (${kind}): ${JSON.stringify(answers)}`
      const won = answers.flatMap(([word], index) => (word === 'won' ? [index] : []))
      const lost = answers.filter(([word, name, code]) => word === 'lost' && name === 'ConflictError' && code === null)
      assert.deepEqual([won.length, lost.length], [1, PROCESSES - 1], what)
      const winner = processes[won[0]]
      winners.add(won[0])

      assert.equal((await containers()).length, 1, what)
      assert.deepEqual(
        (await leases.list(ownerId)).map(lease => lease.runId),
        [runId],
        what,
      )
      assert.deepEqual(await winner.ask('contents'), ['contents', expected], what)
      expected[`round-${round}`] = kind
      assert.deepEqual(await winner.ask('write', `round-${round}`, kind), ['written'], what)

      if (kind === 'new' && round < acquires - 1) {
        assert.deepEqual(await winner.ask('release', 'waiting_approval'), ['released'])
      } else if (kind === 'waiting' && round < acquires - 1) {
        winner.kill()
        await winner.ended
        processes[won[0]] = acquirer(image)
        if (!hasMachineId) await pause(SILENCE_MS)
      } else {
        assert.deepEqual(await winner.ask('release', 'completed'), ['released'])
        assert.deepEqual([await containers(), files()], [[], []], what)
        runId = randomUUID()
        expected = {}
      }
    }
  } finally {
    for (const each of processes) each.end()
    const ends = await Promise.all(processes.map(each => each.ended))
    for (const end of ends) assert.deepEqual(end, [0, null])
  }
  t.diagnostic(`${winners.size} of ${PROCESSES} processes won at least once`)
})

leavesNothing()
