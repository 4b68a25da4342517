// The examples as a user runs them, each process under the runtime of this one.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { BUSYBOX, CLIENTS, lab, socketPath } from '../support/live.mjs'

const { client, leavesNothing } = lab()
const root = fileURLToPath(new URL('../../', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'sandbox-examples-'))
after(() => rmSync(scratch, { recursive: true, force: true }))

/** Bun runs TypeScript as it is. For Node 20 the types are taken out, into a tree that looks like the package's. */
function runnable(name) {
  if (process.versions.bun) return join(root, 'examples', name)
  const folder = mkdtempSync(join(scratch, 'tree-'))
  symlinkSync(join(root, 'index.js'), join(folder, 'index.js'))
  mkdirSync(join(folder, 'examples'))
  const file = join(folder, 'examples', name.replace('.ts', '.mjs'))
  const bun = join(root, 'node_modules/.bin/bun')
  execFileSync(bun, ['build', '--no-bundle', join(root, 'examples', name), '--outfile', file])
  return file
}

const ON_ENGINE = { SANDBOX_SOCKET: socketPath, SANDBOX_IMAGE: BUSYBOX }
const IN_MEMORY = { SANDBOX_MEMORY: '1' }

/** What an example printed, without the process ids, after a check that it went well. */
async function run(file, words, env) {
  const child = spawn(process.execPath, [file, ...words], { env: { ...process.env, ...env } })
  const said = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'])
    child[stream].setEncoding('utf8').on('data', text => (said[stream] += text))
  const code = await new Promise(resolve => child.on('close', resolve))
  assert.deepEqual([code, said.stderr], [0, ''], said.stdout)
  return said.stdout
    .trimEnd()
    .split('\n')
    .map(line => line.replace(/^\[\d+\] /, ''))
}

const ours = async () => (await client.listContainers('zhivex.sandbox.owner=sandbox-resume-example')).length

test('agent.ts runs to its end and leaves nothing', async () => {
  for (const env of [ON_ENGINE, IN_MEMORY]) {
    const lines = await run(runnable('agent.ts'), [], env)
    assert.equal(lines.at(-1), 'Nothing is left of it.')
    assert.ok(lines.some(line => /^ {2}denied {5}sandbox_exec /.test(line)))
  }
})

test('network.ts reaches one host and nothing else', async () => {
  const lines = await run(runnable('network.ts'), [], { ...ON_ENGINE, SANDBOX_IMAGE: CLIENTS })
  assert.deepEqual(lines, [
    'curl https://api.example.test:PORT/',
    '  exit 0: hello from the allowed host',
    'curl https://other.example.test:PORT/',
    '  exit 56',
    'curl --noproxy * https://127.0.0.1:PORT/',
    '  exit 7',
    'The proxy',
    '  allowed api.example.test, by the rule api.example.test',
    '  refused other.example.test: The host other.example.test is not in the allowlist. Allowed: api.example.test. Do not retry; use an allowed host.',
  ])
})

const READ = 'sandbox_read_file {"path":"notes.txt"}'
const WRITE = 'sandbox_write_file {"path":"notes.txt","contents":"one\\ntwo\\n"}'
const contents = text =>
  `{"path":"notes.txt","contents":${JSON.stringify(text)},"encoding":"utf8","offset":0,"size":${text.length},"truncated":false}`
const BEGUN = [`${READ}: ${contents('one\n')}`, 'released as waiting_approval']
const ENDS = {
  approve: [`${WRITE}: {"path":"notes.txt","size":8}`, `${READ}: ${contents('one\ntwo\n')}`, 'released as completed'],
  deny: [`${WRITE}: "refused by the user"`, `${READ}: ${contents('one\n')}`, 'released as completed'],
}

for (const [where, env, kept] of [
  ['on an engine', ON_ENGINE, 1],
  ['in memory', IN_MEMORY, 0],
]) {
  test(`resume.ts: one process stops at an approval and exits, another goes on ${where}`, async () => {
    const file = runnable('resume.ts')
    const directory = mkdtempSync(join(scratch, 'state-'))
    const state = { ...env, SANDBOX_STATE: directory }
    for (const [answer, lines] of Object.entries(ENDS)) {
      assert.deepEqual(await run(file, ['begin'], state), BEGUN)
      assert.equal(await ours(), kept)
      assert.deepEqual(readdirSync(directory).toSorted(), ['leases', 'run.json', 'snapshots'])
      assert.deepEqual(await run(file, [answer], state), lines)
      assert.equal(await ours(), 0)
      assert.deepEqual(readdirSync(directory).toSorted(), ['leases', 'snapshots'])
    }
    // Without a word it is both processes.
    assert.deepEqual(await run(file, [], state), [...BEGUN, ...ENDS.approve])
    const files = ['leases', 'snapshots'].flatMap(name => readdirSync(join(directory, name)))
    assert.deepEqual(
      files.filter(name => !name.startsWith('.lock-')),
      [],
    )
  })
}

leavesNothing()
