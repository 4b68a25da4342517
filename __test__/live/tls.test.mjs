// Engines at TCP ports, with TLS and without. The engine with TLS is a real one of these tests' own.
import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createServer } from 'node:tls'
import { startEngine } from '../../scripts/engine.mjs'
import { createDockerSandboxEnvironment, createNodeDockerClient } from '../../index.js'
import { issue, makeAuthority } from '../support/certificates.mjs'
import { BUSYBOX, failureOf, lab, sh, socketPath } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'
import { surrounded } from '../support/surrounded.mjs'
import { forward, freePort } from '../support/tcp.mjs'

const { leavesNothing, ownerId } = lab()
const folder = temporaryDirectory()
const authority = makeAuthority(folder, 'authority')
const other = makeAuthority(folder, 'other')
const server = issue(authority, 'server', { names: ['IP:127.0.0.1'] })
const client = issue(authority, 'client')

let engine
let port

before(async () => {
  port = await freePort()
  const certificates = [`--tlscacert=${server.ca}`, `--tlscert=${server.cert}`, `--tlskey=${server.key}`]
  engine = await startEngine({
    images: ['busybox'],
    args: [`--host=tcp://127.0.0.1:${port}`, '--tlsverify', ...certificates],
  })
})
after(() => engine.stop())

const withTls = (variables = {}) => ({
  DOCKER_HOST: `tcp://127.0.0.1:${port}`,
  DOCKER_TLS_VERIFY: '1',
  DOCKER_CERT_PATH: client.folder,
  ...variables,
})

/** A folder of certificates made of others' files. */
function mixed(files) {
  const made = join(folder, randomUUID())
  mkdirSync(made)
  for (const [name, from] of Object.entries(files)) copyFileSync(from, join(made, name))
  return made
}

const refusal = variables => surrounded(variables, () => failureOf(createNodeDockerClient().info()))

/** A run that needs every kind of connection: requests, streams both ways, and the end of one direction before the other. */
async function wholeRun(transport) {
  const environment = createDockerSandboxEnvironment({
    ownerId,
    image: BUSYBOX,
    pull: 'never',
    shell: 'allow',
    workspace: { id: 'w', files: [{ path: 'seed', contents: 's' }] },
    limits: { cpus: 2, maxOutputBytes: 16 * 1024 * 1024, commandTimeoutMs: 30_000 },
    transport,
  })
  const runId = randomUUID()
  const session = await environment.acquire({ runId })
  assert.equal(session.capabilities.transport, transport)
  // `cat` ends when its input does, and the command with it.
  assert.equal((await session.exec({ command: 'cat', stdin: 'through' })).stdout, 'through')
  const input = randomBytes(3 * 1024 * 1024)
  const pieces = async function* () {
    for (let at = 0; at < input.length; at += 100_000) yield input.subarray(at, at + 100_000)
  }
  const { stdout } = await session.exec({ command: 'sha256sum', stdin: pieces() })
  assert.equal(stdout.split(' ')[0], createHash('sha256').update(input).digest('hex'))
  assert.equal((await sh(session, 'yes | head -c 8388608')).length, 8 * 1024 * 1024)
  await session.writeFile('d/f', input.subarray(0, 1_000_000))
  assert.deepEqual(Buffer.from((await session.readFile('d/f')).contents), input.subarray(0, 1_000_000))
  if (transport === 'resident') {
    const shell = await session.spawn({ command: 'sh' })
    await shell.write('echo "in $PWD"\nexit 3\n')
    const said = []
    for await (const { data } of shell) said.push(Buffer.from(data).toString())
    assert.deepEqual([said.join(''), (await shell.result).exitCode], ['in /workspace\n', 3])
  }
  await session.release({ status: 'waiting_approval' })
  const again = await environment.acquire({ runId })
  assert.equal(await sh(again, 'cat seed; wc -c <d/f'), 's1000000\n')
  await again.release({ status: 'completed' })
  assert.deepEqual(await createNodeDockerClient().listContainers(`zhivex.sandbox.owner=${ownerId}`), [])
  await environment.close()
}

for (const transport of ['resident', 'exec']) {
  test(`a run on an engine with TLS [${transport}]`, () => surrounded(withTls(), () => wholeRun(transport)))

  test(`a run on an engine without TLS that DOCKER_HOST names [${transport}]`, async () => {
    const plain = await forward({ path: socketPath })
    await surrounded({ DOCKER_HOST: `tcp://127.0.0.1:${plain.port}` }, () => wholeRun(transport))
    await plain.close()
  })
}

test('the engine and the certificates of a docker context', async () => {
  const configuration = join(folder, randomUUID())
  const hash = createHash('sha256').update('far').digest('hex')
  const meta = join(configuration, 'contexts/meta', hash)
  const certificates = join(configuration, 'contexts/tls', hash, 'docker')
  for (const made of [meta, certificates]) mkdirSync(made, { recursive: true })
  const docker = { Host: `tcp://127.0.0.1:${port}`, SkipTLSVerify: false }
  writeFileSync(join(meta, 'meta.json'), JSON.stringify({ Name: 'far', Endpoints: { docker } }))
  writeFileSync(join(configuration, 'config.json'), JSON.stringify({ currentContext: 'far' }))
  for (const name of ['ca.pem', 'cert.pem', 'key.pem'])
    copyFileSync(join(client.folder, name), join(certificates, name))
  await surrounded({ DOCKER_CONFIG: configuration }, async () => {
    assert.equal((await createNodeDockerClient().inspectImage(BUSYBOX)).Architecture.length > 0, true)
  })
})

test('an engine that another CA signed is not trusted', async () => {
  const error = await refusal(
    withTls({ DOCKER_CERT_PATH: mixed({ 'ca.pem': other.ca, 'cert.pem': client.cert, 'key.pem': client.key }) }),
  )
  assert.equal(error.code, 'DOCKER_UNAVAILABLE')
  assert.match(error.message, /no CA in .*\/ca\.pem signed its certificate\. Put the CA of this engine there/)
})

test('an engine of another name is not trusted', async () => {
  const error = await refusal(withTls({ DOCKER_HOST: `tcp://localhost:${port}` }))
  assert.equal(error.code, 'DOCKER_UNAVAILABLE')
  assert.match(error.message, /is not for "localhost" .*as a subjectAltName/)
})

test('an engine whose certificate has expired is not trusted', async () => {
  const expired = issue(authority, 'expired-server', { names: ['IP:127.0.0.1'], expired: true })
  const late = createServer({ cert: readFileSync(expired.cert), key: readFileSync(expired.key) })
    .on('tlsClientError', () => undefined)
    .listen(0, '127.0.0.1')
  await once(late, 'listening')
  const error = await refusal(withTls({ DOCKER_HOST: `tcp://127.0.0.1:${late.address().port}` }))
  assert.equal(error.code, 'DOCKER_UNAVAILABLE')
  assert.match(error.message, /its certificate has expired\. Give the engine a new one/)
  late.close()
})

test('a client that the engine does not know is told whose certificate it needs', async () => {
  const stranger = issue(other, 'stranger')
  const expired = issue(authority, 'expired-client', { expired: true })
  const noServer = issue(authority, 'server-as-client', { names: ['IP:127.0.0.1'] })
  for (const { cert, key } of [stranger, expired, noServer]) {
    const path = mixed({ 'ca.pem': authority.ca, 'cert.pem': cert, 'key.pem': key })
    const error = await refusal(withTls({ DOCKER_CERT_PATH: path }))
    assert.equal(error.code, 'DOCKER_UNAVAILABLE', error.message)
    assert.match(error.message, /refused the certificate .*\/cert\.pem of this client .*has signed for clients/)
  }
  const error = await refusal(withTls({ DOCKER_CERT_PATH: mixed({ 'ca.pem': authority.ca }) }))
  assert.equal(error.code, 'DOCKER_UNAVAILABLE', error.message)
  assert.match(error.message, /wants a certificate of its clients, and there is no .*\/cert\.pem/)
})

test('TLS where there is none, and none where there is', async () => {
  const { DOCKER_HOST } = withTls()
  const spokenPlain = await refusal({ DOCKER_HOST })
  assert.equal(spokenPlain.code, 'DOCKER_UNAVAILABLE')
  assert.match(spokenPlain.message, /speaks TLS on this port, and was spoken to without\. Set DOCKER_TLS_VERIFY=1/)
  const plain = await forward({ path: socketPath })
  const spokenTls = await refusal(withTls({ DOCKER_HOST: `tcp://127.0.0.1:${plain.port}` }))
  assert.equal(spokenTls.code, 'DOCKER_UNAVAILABLE')
  assert.match(spokenTls.message, /does not speak TLS/)
  await plain.close()
})

test('nobody there, and no such name', async () => {
  const nobody = await refusal(withTls({ DOCKER_HOST: `tcp://127.0.0.1:${await freePort()}` }))
  assert.deepEqual([nobody.code, /nothing listens on port/.test(nobody.message)], ['DOCKER_UNAVAILABLE', true])
  const nowhere = await refusal(withTls({ DOCKER_HOST: 'tcp://engine.invalid:2376' }))
  assert.deepEqual([nowhere.code, /cannot be reached/.test(nowhere.message)], ['DOCKER_UNAVAILABLE', true])
})

test('output that was cut off is an error, never the end', async () => {
  let left = Infinity
  const cutting = await forward({ host: '127.0.0.1', port }, (piece, cut) => {
    left -= piece.length
    if (left < 0) cut()
  })
  await surrounded(withTls({ DOCKER_HOST: `tcp://127.0.0.1:${cutting.port}` }), async () => {
    const docker = createNodeDockerClient()
    const { Id } = await docker.createContainer({
      image: BUSYBOX,
      user: '65534:65534',
      workingDir: '/',
      env: [],
      cmd: ['sleep', '600'],
      networkMode: 'none',
      readonlyRootfs: true,
      memoryBytes: 64 * 1024 * 1024,
      nanoCpus: 1e9,
      pidsLimit: 16,
      tmpfs: {},
      labels: {},
      init: true,
    })
    await docker.startContainer(Id)
    const request = {
      cmd: ['sh', '-c', 'yes | head -c 1000000; sleep 600'],
      user: '',
      workingDir: '/',
      timeoutMs: 20_000,
      maxOutputBytes: 10_000_000,
    }
    left = 200_000
    const error = await failureOf(docker.exec(Id, request))
    assert.deepEqual([error.code, /output stream of a command was lost/.test(error.message)], ['DOCKER_API', true])
    left = Infinity
    await docker.removeContainer(Id)
  })
  await cutting.close()
})

leavesNothing()
