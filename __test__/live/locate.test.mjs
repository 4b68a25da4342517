// Which engine is meant where no socket is given, with this machine's private engine as the one that is named.
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createNodeDockerClient } from '../../index.js'
import { BUSYBOX, failureOf, lab, socketPath } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'
import { surrounded } from '../support/surrounded.mjs'

const { leavesNothing, ownerId } = lab()

/** A folder of Docker's command line with one context, which is the current one. */
function configuration(host) {
  const folder = temporaryDirectory()
  const name = 'of-the-test'
  const meta = join(folder, 'contexts/meta', createHash('sha256').update(name).digest('hex'))
  mkdirSync(meta, { recursive: true })
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ currentContext: name }))
  writeFileSync(join(meta, 'meta.json'), JSON.stringify({ Name: name, Endpoints: { docker: { Host: host } } }))
  return folder
}

test('the engine of DOCKER_HOST runs a run, also where a program sets it', () =>
  surrounded({ DOCKER_HOST: `unix://${socketPath}` }, async () => {
    const environment = createDockerSandboxEnvironment({
      ownerId,
      image: BUSYBOX,
      pull: 'never',
      shell: 'allow',
      workspace: { id: 'w' },
    })
    const session = await environment.acquire({ runId: randomUUID() })
    assert.equal((await session.exec({ command: 'echo', args: ['found'] })).stdout, 'found\n')
    await session.release({ status: 'completed' })
    await environment.close()
  }))

test('the engine of the current docker context is found', () =>
  surrounded({ DOCKER_CONFIG: configuration(`unix://${socketPath}`) }, async () => {
    assert.ok(await createNodeDockerClient().info())
  }))

test('what was named and is not there is an error, whatever else there is', () =>
  surrounded(
    { DOCKER_HOST: 'unix:///nowhere/docker.sock', DOCKER_CONFIG: configuration(`unix://${socketPath}`) },
    async () => {
      const error = await failureOf(createNodeDockerClient().info())
      assert.equal(error.code, 'DOCKER_UNAVAILABLE')
      assert.match(error.message, /\/nowhere\/docker\.sock does not exist/)
      process.env.DOCKER_HOST = 'ssh://me@host'
      const far = await failureOf(createNodeDockerClient().info())
      assert.deepEqual([far.code, /ssh -nNT -L/.test(far.message)], ['UNSUPPORTED', true])
      assert.ok(await createNodeDockerClient({ socketPath }).info())
    },
  ))

leavesNothing()
