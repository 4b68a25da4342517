// Images without a shell or tools: the resident transport needs nothing of an image.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { findOnPath } from '../../scripts/lib/tools.mjs'
import { DISTROLESS, SCRATCH, failureOf, lab } from '../support/live.mjs'

const { client, containers, environment, leavesNothing } = lab()
const MIB = 2 ** 20
const resident = { transport: 'resident' }
// What an agent would bring along where the image has nothing.
const BUSYBOX = { path: 'bin/busybox', contents: readFileSync(findOnPath('busybox')), mode: 0o755 }

const IMAGES = {
  scratch: {
    image: SCRATCH,
    options: { workspace: { exec: true, files: [BUSYBOX] }, limits: { maxFileBytes: 8 * MIB } },
    seed: ['bin', 'bin/busybox'],
    say: text => ({ command: './bin/busybox', args: ['echo', text] }),
  },
  distroless: {
    image: DISTROLESS,
    options: {},
    seed: [],
    say: text => ({ command: 'perl', args: ['-e', 'print "$ARGV[0]\\n"', text] }),
  },
}

for (const [name, { image, options, seed, say }] of Object.entries(IMAGES)) {
  test(`files, commands and a snapshot [${name}]`, async () => {
    const owner = environment({ ...resident, ...options, image })
    const runId = randomUUID()
    const first = await owner.acquire({ runId })
    assert.equal(first.capabilities.transport, 'resident')
    await first.writeFile('a/b', 'kept')
    const said = await first.exec(say('héllo'))
    assert.deepEqual([said.outcome, said.exitCode, said.stdout, said.stderr], ['exited', 0, 'héllo\n', ''])
    const missing = await first.exec({ command: 'sh', args: ['-c', 'true'] })
    assert.deepEqual([missing.outcome, missing.stderr], ['not_started', 'sh: command not found\n'])
    await first.release({ status: 'waiting_approval' })
    const [{ Id }] = await containers()
    await client.removeContainer(Id)
    const second = await owner.acquire({ runId })
    try {
      assert.deepEqual(
        (await second.list('.', { depth: 3 })).entries.map(({ path }) => path),
        ['a', 'a/b', ...seed],
      )
      assert.equal((await second.readFile('a/b', { encoding: 'utf8' })).contents, 'kept')
      assert.equal((await second.exec(say('on'))).stdout, 'on\n')
    } finally {
      await second.release({ status: 'completed' })
      await owner.close()
    }
  })

  test(`docker exec cannot do without a shell, and says so [${name}]`, async () => {
    const owner = environment({ image, transport: 'exec' })
    const error = await failureOf(owner.acquire({ runId: randomUUID() }))
    assert.equal(error.code, 'DOCKER_API')
    assert.match(error.message, /\/bin\/sh/)
    await owner.close()
  })
}

leavesNothing()
