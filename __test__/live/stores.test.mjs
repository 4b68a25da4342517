// A run that waits in one process and is finished by another, through stores that both can reach.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { lab, plainOptions, runProgram } from '../support/live.mjs'

const { client, containers, leavesNothing, ownerId } = lab()
const root = mkdtempSync(join(tmpdir(), 'sandbox-live-stores-'))
after(() => rmSync(root, { recursive: true, force: true }))
const directory = join(root, 'stores')

const RUNTIME = JSON.stringify(new URL('../support/runtime.mjs', import.meta.url).href)
const options = { ...plainOptions(ownerId), workspace: { id: 'w' } }

/** An agent in a process of its own. Its model writes a file, waits for approval before each step, and reads it again. */
async function inProcess(program) {
  const source = `
    const { startRun, resumeRun } = await import(${RUNTIME})
    const directory = ${JSON.stringify(directory)}
    const batches = [
      [{ name: 'sandbox_write_file', input: { path: 'f', contents: 'from process ' } }],
      [{ name: 'sandbox_exec', input: { command: 'sh', args: ['-c', 'printf two >>f; cat f'] } }],
    ]
    const agent = {
      environment: api.createDockerSandboxEnvironment({
        ...${JSON.stringify(options)},
        leaseStore: api.createFileLeaseStore({ directory }),
        snapshotStore: api.createFileSnapshotStore({ directory }),
      }),
      tools: api.createDockerSandboxTools(),
      model: ({ step }) => (step < batches.length ? { calls: batches[step] } : { text: 'done' }),
    }
    const state = await (async () => { ${program} })()
    console.log(JSON.stringify(state))`
  const { code, signal, stdout, stderr } = await runProgram(ownerId, source)
  assert.deepEqual([code, signal, stderr], [0, null, ''])
  return JSON.parse(stdout)
}

const begin = runId => inProcess(`return startRun(agent, ${JSON.stringify({ runId })})`)
const resume = state => inProcess(`return resumeRun(agent, ${JSON.stringify(state)})`)
const kept = () => readdirSync(directory).filter(name => !name.startsWith('.lock-'))

for (const lost of [false, true]) {
  const title = lost ? 'in a container rebuilt from its snapshot' : 'in its container'
  test(`a run that waits in one process is finished by others, ${title}`, async () => {
    const waiting = await begin(randomUUID())
    assert.equal(waiting.status, 'waiting_approval')
    const written = await resume(waiting)
    assert.equal(written.status, 'waiting_approval')
    assert.deepEqual(
      kept()
        .map(name => name.split('.').at(-1))
        .toSorted(),
      ['lease', 'snapshot'],
    )
    const [{ Id }] = await containers()
    if (lost) await client.removeContainer(Id)
    const done = await resume(written)
    assert.deepEqual([done.status, done.text], ['completed', 'done'])
    const results = done.messages.filter(({ role }) => role === 'tool').flatMap(message => message.results)
    assert.deepEqual([results[1].value.exitCode, results[1].value.stdout], [0, 'from process two'])
    assert.deepEqual([await containers(), kept()], [[], []])
  })
}

test('two processes that resume one run: one finishes it, the other has a conflict and disturbs nothing', async () => {
  const waiting = await begin(randomUUID())
  const conflicts = mkdtempSync(join(root, 'conflicts-'))

  // The holder goes on until all others had their conflict.
  const program = `
    const { readdirSync, writeFileSync } = await import('node:fs')
    const conflicts = ${JSON.stringify(conflicts)}
    try {
      const session = await agent.environment.acquire({ runId: ${JSON.stringify(waiting.runId)} })
      await session.writeFile('mine', String(process.pid))
      while (readdirSync(conflicts).length < 3) await new Promise(resolve => setTimeout(resolve, 20))
      const { contents } = await session.readFile('mine', { encoding: 'utf8' })
      await session.release({ status: 'completed' })
      return contents === String(process.pid)
    } catch (error) {
      writeFileSync(conflicts + '/' + process.pid, error.name)
      return error.name
    }`
  const outcomes = await Promise.all(Array.from({ length: 4 }, () => inProcess(program)))
  const counted = [true, 'ConflictError'].map(outcome => outcomes.filter(each => each === outcome).length)
  assert.deepEqual([counted, kept()], [[1, 3], []])
})

leavesNothing()
