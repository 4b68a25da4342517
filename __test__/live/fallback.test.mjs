// An engine, or what stands before it, that does not give the resident transport what it needs: "resident" says so, "auto"
// does without, and neither leaves anything behind.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { behindProxy } from '../support/engine-proxy.mjs'
import { engine, eventually, failureOf, lab, runProgram } from '../support/live.mjs'
import {
  createVolume,
  fillers,
  imageWith,
  removeVolume,
  supervisors,
  through,
  volumeWith,
} from '../support/supervisor-volume.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()
const FORBIDDEN = { status: 403 }
const CREATE = /^\/containers\/create/
const UPLOAD = /\/archive\?/
const INSPECT_IMAGE = /^\/images\/.*\/json/

const uploads = proxy => proxy.log.filter(line => line.startsWith('PUT') && UPLOAD.test(line)).length
const starts = proxy => proxy.log.filter(line => /^POST \/containers\/.*\/start$/.test(line)).length

/** Uses an environment of that transport behind a proxy with these rules. */
async function behind(rules, transport, use, options = {}) {
  return behindProxy(rules, async proxy => {
    const owner = environment({ transport, socketPath: proxy.socketPath, ...options })
    try {
      return await use(owner, proxy)
    } finally {
      await owner.close()
    }
  })
}

/** One command in a session of a run of its own; what the session can do. */
async function works(owner) {
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    const { stdout } = await session.exec({ command: 'echo', args: ['on'] })
    assert.equal(stdout, 'on\n')
    return session.capabilities
  } finally {
    await session.release({ status: 'completed' })
  }
}

/** "resident" fails with this code and words, "auto" works by exec and gives them as its reason. */
async function goesWithout(rules, code, words) {
  await behind(rules, 'resident', async owner => {
    const error = await failureOf(owner.acquire({ runId: randomUUID() }))
    assert.equal(error.code, code, error.message)
    assert.match(error.message, words)
    assert.match(error.message, /set transport: "exec"/i)
  })
  assert.deepEqual([await containers(), await fillers()], [[], []])
  await behind(rules, 'auto', async (owner, proxy) => {
    const { transport, fallbackReason } = await works(owner)
    assert.equal(transport, 'exec')
    assert.match(fallbackReason, words)
    assert.match(fallbackReason, /set transport: "exec"/i)
    // For the next minute nothing of it is tried again.
    const from = proxy.log.length
    assert.equal((await works(owner)).fallbackReason, fallbackReason)
    const after = proxy.log.slice(from)
    assert.equal(after.filter(line => CREATE.test(line.slice(5))).length, 1, after.join('\n'))
    assert.deepEqual(
      after.filter(line => /volumes|attach|wait|archive/.test(line)),
      [],
    )
  })
  assert.deepEqual([await containers(), await fillers()], [[], []])
}

/** Makes the supervisor's volume anew by way of an ordinary run; its name and labels. */
async function freshVolume() {
  for (const name of await supervisors()) await removeVolume(name)
  await behind([], 'resident', works)
  const [name] = await supervisors()
  const { Labels } = await engine('GET', `/volumes/${name}`)
  return { name, labels: Labels }
}

for (const [what, rules, words] of [
  ['attach', [{ method: 'POST', path: /\/attach\?/, ...FORBIDDEN }], /attach.* returned 403: denied by policy/],
  ['wait', [{ method: 'POST', path: /\/wait\?/, ...FORBIDDEN }], /wait.* returned 403: denied by policy/],
  ['looking at an archive', [{ method: 'GET', path: /\/archive\?/, ...FORBIDDEN }], /archive.* returned 403/],
  [
    'volumes',
    [
      { method: 'GET', path: /^\/volumes/, ...FORBIDDEN },
      { method: 'POST', path: /^\/volumes/, ...FORBIDDEN },
    ],
    /volumes.* returned 403: denied by policy/,
  ],
]) {
  test(`${what} refused`, () => goesWithout(rules, 'DOCKER_API', words))
}

test('volumes refused: none is made on the way', async () => {
  const { name } = await freshVolume()
  await removeVolume(name)
  for (const method of ['GET', 'POST']) {
    const rules = [{ method, path: /^\/volumes/, ...FORBIDDEN }]
    await goesWithout(rules, 'DOCKER_API', /volumes.* returned 403: denied by policy/)
    assert.deepEqual(await supervisors(), [])
  }
})

test('upload of archives refused, where the volume is not filled yet', async () => {
  const { name } = await freshVolume()
  await removeVolume(name)
  await goesWithout(
    [{ method: 'PUT', path: /\/archive\?/, ...FORBIDDEN }],
    'DOCKER_API',
    /PUT .*archive.* returned 403/,
  )
  // The volume is made, empty, and filled by whoever may.
  assert.deepEqual(await supervisors(), [name])
  assert.equal((await behind([], 'resident', works)).transport, 'resident')
})

test('a volume that is whole is not written to again', async () => {
  const { name } = await freshVolume()
  await behind([], 'resident', async (owner, proxy) => {
    for (let n = 0; n < 2; n++) assert.equal((await works(owner)).transport, 'resident')
    assert.equal(uploads(proxy), 0, proxy.log.join('\n'))
    assert.equal(starts(proxy), 2)
  })
  // What counts is seen where it has to be filled.
  await removeVolume(name)
  await behind([], 'resident', async (owner, proxy) => {
    for (let n = 0; n < 2; n++) assert.equal((await works(owner)).transport, 'resident')
    assert.equal(uploads(proxy), 2, proxy.log.join('\n'))
  })
})

test('a filling that was refused half way is done again by the next run', async () => {
  const { name } = await freshVolume()
  await removeVolume(name)
  let seen = 0
  const second = { method: 'PUT', path: { test: bare => UPLOAD.test(bare) && ++seen === 2 }, ...FORBIDDEN }
  await behind([second], 'resident', async owner => {
    const error = await failureOf(owner.acquire({ runId: randomUUID() }))
    assert.equal(error.code, 'DOCKER_API', error.message)
    assert.match(error.message, /PUT .*archive.* returned 403/)
  })
  assert.equal(seen, 2)
  assert.deepEqual([await containers(), await fillers(), await supervisors()], [[], [], [name]])
  await behind([], 'resident', async (owner, proxy) => {
    assert.equal((await works(owner)).transport, 'resident')
    assert.equal(uploads(proxy), 2)
  })
})

test('what an image has at the place of the volume does not get into it', async () => {
  const { name } = await freshVolume()
  const files = [
    ['.sandbox/supervisor', '#!/bin/sh\nexec sleep 300\n'],
    ['.sandbox/complete', 'x'],
  ]
  await imageWith(files, async image => {
    const listed = async owner => {
      const session = await owner.acquire({ runId: randomUUID() })
      const { stdout } = await session.exec({ command: 'ls', args: ['/.sandbox'] })
      await session.release({ status: 'completed' })
      return stdout
    }
    assert.equal(await behind([], 'exec', listed, { image }), 'complete\nsupervisor\n')
    await removeVolume(name)
    assert.equal((await behind([], 'resident', works, { image })).transport, 'resident')
    // Nor in the place of one that is whole.
    assert.equal((await behind([], 'resident', works, { image })).transport, 'resident')
  })
  assert.deepEqual([await containers(), await fillers(), await supervisors()], [[], [], [name]])
})

for (const [architecture, words] of [
  ['riscv64', /There is no supervisor for containers of architecture "riscv64"/],
  ['', /There is no supervisor for containers of architecture ""/],
  ['arm64', /This build of the package holds no supervisor for architecture "arm64"/],
]) {
  test(`an image of architecture ${architecture || 'unknown'}`, async () => {
    const body = image => ({ ...image, Architecture: architecture })
    await goesWithout([{ method: 'GET', path: INSPECT_IMAGE, body }], 'UNSUPPORTED', words)
  })
}

// What the engine makes is not what was asked for: root, who may look into every process. Landlock would keep that from
// getting through.
test('process 1 is not protected from commands', async () => {
  const deny = { names: ['landlock_create_ruleset'], action: 'SCMP_ACT_ERRNO', errnoRet: 38 }
  const seccomp = JSON.stringify({ defaultAction: 'SCMP_ACT_ALLOW', syscalls: [deny] })
  const request = asked => {
    if (asked.Entrypoint?.[0] !== '/.sandbox/supervisor') return asked
    const SecurityOpt = [...asked.HostConfig.SecurityOpt, `seccomp=${seccomp}`]
    return { ...asked, User: '0:0', HostConfig: { ...asked.HostConfig, CapAdd: ['SYS_PTRACE'], SecurityOpt } }
  }
  await goesWithout(
    [{ method: 'POST', path: CREATE, request }],
    'UNSUPPORTED',
    /process 1 cannot be protected from its commands \(got through: inject, environ, memory, descriptors\)/,
  )
})

for (const [what, volume] of [
  [
    'a bind mount of the host',
    ({ labels }) => ({ Labels: labels, DriverOpts: { type: 'none', o: 'bind', device: '/etc' } }),
  ],
  ['one with other labels', () => ({ Labels: { somebody: 'else' } })],
  ['one without labels', () => ({})],
]) {
  test(`a volume of our name that is ${what}`, async () => {
    const ours = await freshVolume()
    await removeVolume(ours.name)
    await createVolume({ Name: ours.name, Driver: 'local', ...volume(ours) })
    await behind([], 'auto', async (owner, proxy) => {
      await works(owner)
      // It is never mounted.
      assert.equal(starts(proxy), 1)
      assert.equal(proxy.log.filter(line => CREATE.test(line.slice(5))).length, 1)
    })
    await goesWithout([], 'UNSUPPORTED', /was not made by this package .*Remove it/)
    await removeVolume(ours.name)
    assert.equal((await behind([], 'resident', works)).transport, 'resident')
  })
}

for (const [what, files] of [
  [
    'holds another program',
    [
      ['supervisor', '#!/bin/sh\n'],
      ['complete', 'x'],
    ],
  ],
  ['is marked whole and holds none', [['complete', 'x']]],
]) {
  test(`a volume of our name and labels that ${what}`, async () => {
    const ours = await freshVolume()
    await volumeWith(ours, files)
    await behind([], 'auto', async (owner, proxy) => {
      await works(owner)
      assert.equal(starts(proxy), 1, 'what is in it never runs')
    })
    await goesWithout([], 'UNSUPPORTED', /does not hold the supervisor of this package.*docker volume rm/)
    await removeVolume(ours.name)
    assert.equal((await behind([], 'resident', works)).transport, 'resident')
  })
}

test('a volume that is half filled is filled', async () => {
  const ours = await freshVolume()
  await volumeWith(ours, [['supervisor', 'half of it']])
  assert.equal((await behind([], 'resident', works)).transport, 'resident')
  assert.deepEqual(await fillers(), [])
})

test('a volume that is removed while the environment lives is made again', () =>
  behind([], 'resident', async owner => {
    assert.equal((await works(owner)).transport, 'resident')
    for (const name of await supervisors()) await removeVolume(name)
    assert.equal((await works(owner)).transport, 'resident')
    // Made again at once, and empty: its time is perhaps the same.
    const { name, labels } = await freshVolume()
    assert.equal((await works(owner)).transport, 'resident')
    await removeVolume(name)
    await createVolume({ Name: name, Driver: 'local', Labels: labels })
    assert.equal((await works(owner)).transport, 'resident')
    assert.deepEqual(await fillers(), [])
  }))

test('the filler of a dead host is waited for while it is young, and taken over when it is old', async () => {
  const { name, labels } = await freshVolume()
  await removeVolume(name)
  await createVolume({ Name: name, Driver: 'local', Labels: labels })
  await through(name, { name: `${name}-filler`, labels }, async () => {
    const body = listed => listed.map(one => ({ ...one, Created: one.Created - age }))
    let age = 0
    const rule = { method: 'GET', path: /^\/containers\/json\?/, body }
    await behind([rule], 'resident', async (owner, proxy) => {
      let done = false
      const working = works(owner).finally(() => (done = true))
      working.catch(() => undefined)
      const looks = () => proxy.log.filter(line => rule.path.test(line.slice(4))).length
      await eventually('it looks again and again', () => looks() > 5)
      assert.equal(done, false)
      assert.deepEqual(await fillers(), [`/${name}-filler`])
      age = 61
      assert.equal((await working).transport, 'resident')
    })
  })
  assert.deepEqual(await fillers(), [])
})

test('two processes that begin at once share the work', async () => {
  const { name } = await freshVolume()
  await removeVolume(name)
  const program = `
    const session = await environment.acquire({ runId: crypto.randomUUID() })
    const { stdout } = await session.exec({ command: 'echo', args: [session.capabilities.transport] })
    await session.release({ status: 'completed' })
    await environment.close()
    console.log(stdout.trim(), session.capabilities.fallbackReason ?? '')`
  const ended = await Promise.all([1, 2, 3].map(() => runProgram(ownerId, program)))
  for (const { code, stdout, stderr } of ended) assert.deepEqual([code, stdout.trim(), stderr], [0, 'resident', ''])
  assert.deepEqual(await supervisors(), [name])
  assert.deepEqual(await fillers(), [])
})

const OPERATIONS = [
  session => session.exec({ command: 'true' }),
  session => session.readFile('f'),
  session => session.writeFile('f', 'x'),
  session => session.list(),
]

/** A command runs, the container is lost by `how`, and every operation says why; nothing is left. */
async function loses(how, words) {
  await behind([], 'resident', async (owner, proxy) => {
    const session = await owner.acquire({ runId: randomUUID() })
    const [{ Id }] = await containers()
    const running = failureOf(session.exec({ command: 'sh', args: ['-c', 'echo >here; exec sleep 305'] }))
    await eventually('it runs', async () => (await session.list()).entries.length === 1)
    await how(Id, proxy, session)
    const errors = [await running]
    for (const operation of OPERATIONS) errors.push(await failureOf(operation(session)))
    for (const error of errors) {
      assert.equal(error.code, 'CONTAINER_LOST', error.message)
      assert.ok(error.message.includes(Id), error.message)
      assert.match(error.message, words)
    }
    assert.deepEqual(await containers(), [])
    await session.release({ status: 'completed' })
  })
}

test('the stream is cut in the middle of an operation', () =>
  loses((_id, proxy) => {
    assert.equal(proxy.streams.size, 1)
    for (const stream of proxy.streams) stream.destroy()
  }, /has ended: The sandbox's process 1 has ended, or the engine closed the stream to it/))

test('the container is killed', () =>
  loses(id => engine('POST', `/containers/${id}/kill`), /it was killed or removed from outside/))

test('the container is removed', () => loses(id => client.removeContainer(id), /it was killed or removed from outside/))

leavesNothing()
