// Programs that were written for version 0.2.1, in a user's project, unchanged: what docs/migrating.md says of them.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { lab, socketPath } from '../support/live.mjs'
import { projectOf, withoutTypes } from '../support/migrating/project.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const { leavesNothing, ownerId } = lab()

/** What a program of the earlier version prints. */
async function run(program) {
  const folder = temporaryDirectory()
  const file = withoutTypes(projectOf(folder, program))
  const env = { ...process.env, SOCKET: socketPath, OWNER: ownerId, DIRECTORY: folder }
  writeFileSync(join(folder, 'host.txt'), 'of the host')
  const child = spawn(process.execPath, [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'])
    child[stream].setEncoding('utf8').on('data', text => (said[stream] += text))
  const code = await new Promise(resolve => child.on('close', resolve))
  assert.deepEqual([code, said.stderr], [0, ''], said.stdout)
  return said.stdout.trim().split('\n')
}

test('a program over the Docker client of 0.2.1, each documented error among it', async () => {
  assert.deepEqual(await run('client'), [
    'kind node',
    'version done',
    'no engine DOCKER_UNAVAILABLE',
    'image unknown NOT_FOUND',
    'not started DOCKER_API',
    'inspect true running 1000000000 64 268435456',
    'list true',
    'exec 3 hello more oops false false',
    'late 137 out err true false',
    'long 137 1024 true false',
    'busy 137 true false true',
    'mark 32 0',
    'no user CONFIG_INVALID',
    'abort CANCELLED',
    'left 0',
    'getArchive 0 f 7 644 true',
    'link f',
    'putArchive content',
    'realpath /workspace/f /etc/passwd',
    'no path NOT_FOUND',
    'no single path PATH_INVALID',
    'no absolute path PATH_INVALID',
    'no room LIMIT',
    'no tar DOCKER_API',
    'commit true',
    'no image NOT_FOUND',
    'no container NOT_FOUND',
    'network string',
    'no network NOT_FOUND',
  ])
})

test('an agent by the README of 0.2.1: approvals, resumes, conflicts, restores, stores', async () => {
  const read = String.raw`"# workspace\n"`
  assert.deepEqual(await run('agent'), [
    'defaults alpine:3.21 65534:65534 256 0.5 64',
    'quotas true',
    'plain enforced deny deny deny',
    'open {"allowPrivateNetworks":false,"allowedDomains":["example.com"],"allowedPorts":[443],"mode":"allowlist"} allow',
    'root SandboxError CONFIG_INVALID',
    'double best-effort',
    'enforced SandboxError UNSUPPORTED',
    'first waiting_approval [["README.md","src"]]',
    `second waiting_approval [["README.md","src"],1,${read}]`,
    `third completed [["README.md","src"],1,${read},"a"]`,
    'refused completed ["refused","refused","refused","refused"]',
    'failing completed ["NOT_FOUND","refused"]',
    'user 65534 secret false',
    'waiting waiting_approval []',
    'changed environment ConflictError',
    'changed workspace ConflictError',
    'changed CPU ConflictError',
    'changed PIDs ConflictError',
    'changed user ConflictError',
    'approved waiting_approval [4]',
    'restored completed [4,"kept",4,"kept"]',
    'containers 2 SandboxError NOT_FOUND',
    'expired waiting_approval SandboxError LEASE_EXPIRED',
    'its container SandboxError NOT_FOUND',
    'committed completed ["of the host",1,["README.md","a","host.txt","src"]]',
  ])
})

leavesNothing()
