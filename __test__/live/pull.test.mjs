// Images that the engine has not: fetched from a real registry on this machine that wants to know who asks.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { ACCOUNT, startRegistry } from '../../scripts/lib/registry.mjs'
import { createNodeDockerClient } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { engine, eventually, failureOf, lab, socketPath } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'
import { surrounded } from '../support/surrounded.mjs'
import { END, entry } from '../support/ustar.mjs'

const { environment, leavesNothing } = lab()
const SIZE = 8 * 1024 * 1024
const SECRET = Buffer.from(`${ACCOUNT.username}:${ACCOUNT.password}`).toString('base64')

let registry

before(async () => {
  registry = await startRegistry()
})
after(() => registry.stop())

/** A call whose reply is a stream of JSON values; rejects with an error that one of them has. */
function progress(method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', piece => (text += piece))
      response.on('end', () => {
        if (response.statusCode >= 300 || text.includes('"error"')) reject(new Error(`${path}: ${text}`))
        else resolve(text)
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A tar of one file that nothing compresses. */
const tar = () => Buffer.concat([entry('noise', { contents: randomBytes(SIZE) }), END])

/** Puts an image into the registry and takes it off the engine. Gives its name and its digest. */
async function publish(name = `team/${randomUUID().slice(0, 8)}`, tag = '1') {
  const repository = `${registry.host}/${name}`
  await progress('POST', `/images/create?fromSrc=-&repo=${repository}&tag=${tag}`, {}, tar())
  const login = Buffer.from(JSON.stringify(ACCOUNT)).toString('base64url')
  const pushed = await progress('POST', `/images/${repository}/push?tag=${tag}`, { 'X-Registry-Auth': login })
  const [digest] = pushed.match(/sha256:[0-9a-f]{64}(?= size)/) ?? pushed.match(/(?<="Digest":")sha256:[0-9a-f]{64}/)
  await engine('DELETE', `/images/${repository}:${tag}`)
  return { name, image: `${repository}:${tag}`, repository, digest }
}

/** A folder of Docker's command line with this configuration. */
function configuration(config) {
  const folder = temporaryDirectory()
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config))
  return folder
}

const loggedIn = (auth = SECRET) => ({ DOCKER_CONFIG: configuration({ auths: { [registry.host]: { auth } } }) })

/** A program that keeps credentials, and a `PATH` that has it. */
function helper(script) {
  const folder = temporaryDirectory()
  const program = join(folder, 'docker-credential-tests')
  writeFileSync(program, `#!/bin/sh\n${script}\n`)
  chmodSync(program, 0o755)
  return `${folder}:${process.env.PATH}`
}

const options = (image, more = {}) => ({ image, pull: 'missing', transport: 'resident', ...more })

async function acquireAndEnd(owner) {
  const session = await owner.acquire({ runId: randomUUID() })
  await session.release({ status: 'completed' })
}

const forget = image => engine('DELETE', `/images/${image}?force=true`)

test('a missing image is fetched once for runs that begin at once, with the credentials of docker login', async () => {
  const { image } = await publish()
  await surrounded(loggedIn(), async () => {
    const events = []
    const owner = environment(options(image, { onEvent: event => events.push(event) }))
    await Promise.all([1, 2, 3, 4].map(() => acquireAndEnd(owner)))
    await owner.close()
    await eventually('all is told', async () => events.some(({ type }) => type === 'closed'))
    const [pulled, ...more] = events.filter(({ type }) => type === 'image_pulled')
    assert.deepEqual([pulled.image, more], [image, []])
    const steps = events.filter(({ type }) => type === 'image_progress')
    assert.ok(steps.length > 0)
    for (const { image: of, bytes, totalBytes } of steps) assert.ok(of === image && bytes <= totalBytes)
    assert.ok(steps.every(({ bytes }, at) => at === 0 || bytes >= steps[at - 1].bytes))
    assert.equal(steps.at(-1).bytes, pulled.bytes)
    assert.ok(pulled.bytes >= SIZE, `${pulled.bytes}`)
  })
  await forget(image)
})

test('credentials of a helper', async () => {
  const { image } = await publish()
  const answer = JSON.stringify({ ServerURL: registry.host, Username: ACCOUNT.username, Secret: ACCOUNT.password })
  const PATH = helper(`[ "$1" = get ] && [ "$(cat)" = ${registry.host} ] && echo '${answer}'`)
  const before = process.env.PATH
  process.env.PATH = PATH
  try {
    for (const config of [{ credsStore: 'tests' }, { credHelpers: { [registry.host]: 'tests' }, credsStore: 'none' }]) {
      await surrounded({ DOCKER_CONFIG: configuration(config) }, () =>
        createNodeDockerClient({ socketPath }).pullImage(image),
      )
      await forget(image)
    }
  } finally {
    process.env.PATH = before
  }
})

test('without credentials, with wrong ones, and where they cannot be read, it says what to do, and no secret', async () => {
  const { image } = await publish()
  const wrong = Buffer.from('tester:wrong-word').toString('base64')
  for (const [variables, words] of [
    [{ DOCKER_CONFIG: configuration({}) }, new RegExp(`log in \\(docker login ${registry.host}\\)`)],
    [loggedIn(wrong), new RegExp(`log in \\(docker login ${registry.host}\\)`)],
    [
      { DOCKER_CONFIG: configuration({ credsStore: 'absent' }) },
      /no credentials for .*: docker-credential-absent is not on PATH/,
    ],
  ]) {
    await surrounded(variables, async () => {
      const owner = environment(options(image))
      const error = await failureOf(owner.acquire({ runId: 'r' }))
      assert.equal(error.code, 'IMAGE_MISSING')
      assert.match(error.message, words)
      for (const secret of [wrong, 'wrong-word']) assert.ok(!error.message.includes(secret))
      await owner.close()
    })
  }
})

test('"never" fetches nothing, "always" what is new under the name, "missing" nothing that is there', async () => {
  const first = await publish()
  await surrounded(loggedIn(), async () => {
    const never = environment(options(first.image, { pull: 'never' }))
    assert.equal((await failureOf(never.acquire({ runId: 'r' }))).code, 'IMAGE_MISSING')
    const client = createNodeDockerClient({ socketPath })
    await client.pullImage(first.image)
    const { Id } = await client.inspectImage(first.image)
    await engine('POST', `/images/${first.image}/tag?repo=sandbox-test/kept&tag=first`)
    await publish(first.name)
    await engine('POST', `/images/sandbox-test/kept:first/tag?repo=${first.repository}&tag=1`)
    for (const [pull, isNew] of [
      ['missing', false],
      ['always', true],
    ]) {
      const owner = environment(options(first.image, { pull }))
      await acquireAndEnd(owner)
      await owner.close()
      assert.equal((await client.inspectImage(first.image)).Id !== Id, isNew, pull)
    }
    await never.close()
  })
  await forget('sandbox-test/kept:first')
  await forget(first.image)
})

test('an image by its digest is that one or none', async () => {
  const { repository, digest } = await publish()
  const image = `${repository}@${digest}`
  await surrounded(loggedIn(), async () => {
    const owner = environment(options(image))
    await acquireAndEnd(owner)
    await owner.close()
    const other = `sha256:${'0'.repeat(64)}`
    const absent = environment(options(`${repository}@${other}`))
    assert.equal((await failureOf(absent.acquire({ runId: 'r' }))).code, 'IMAGE_MISSING')
    await absent.close()
    // An engine, or what stands before it, that gives another one for the name.
    const body = reply => ({ ...reply, RepoDigests: [`${repository}@${other}`] })
    await behindProxy([{ method: 'GET', path: /^\/images\/.*\/json/, body }], async proxy => {
      const deceived = environment({ ...options(image), socketPath: proxy.socketPath })
      const error = await failureOf(deceived.acquire({ runId: 'r' }))
      assert.deepEqual([error.code, /has another image under the name/.test(error.message)], ['IMAGE_MISSING', true])
      await deceived.close()
    })
  })
  await forget(image)
})

test('a run that is aborted while its image is fetched', async () => {
  const { image } = await publish()
  await surrounded(loggedIn(), async () => {
    const controller = new AbortController()
    let tell
    const asked = new Promise(resolve => (tell = resolve))
    const hold = () => {
      tell()
      return new Promise(resolve => controller.signal.addEventListener('abort', () => resolve(false)))
    }
    await behindProxy([{ method: 'POST', path: /^\/images\/create/, before: hold }], async proxy => {
      const owner = environment({ ...options(image), socketPath: proxy.socketPath })
      const acquiring = failureOf(owner.acquire({ runId: 'r', abortSignal: controller.signal }))
      await asked
      controller.abort()
      assert.equal((await acquiring).code, 'CANCELLED')
      await owner.close()
    })
  })
})

leavesNothing()
