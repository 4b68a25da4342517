// What a sweep removes and what it never does, with several host processes on one engine.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createFileLeaseStore, createFileSnapshotStore } from '../../index.js'
import { behindProxy } from '../support/engine-proxy.mjs'
import { BUSYBOX, codeOf, engine, eventually, failureOf, lab, runProgram, swept } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const { client, containers, environment, leavesNothing, ownerId } = lab()
const root = temporaryDirectory()
const stores = directory => ({
  leaseStore: createFileLeaseStore({ directory }),
  snapshotStore: createFileSnapshotStore({ directory }),
})
const names = async () => (await containers()).map(({ Names }) => Names[0].slice(1)).toSorted()

/**
 * A host process with an environment of this owner: `begins` and what it does then is JavaScript. It goes on until `end`,
 * which resolves to what it printed. `within` runs it.
 */
function host(program, directory, within) {
  const given = directory
    ? `{ ...options, leaseStore: api.createFileLeaseStore({ directory: ${JSON.stringify(directory)} }),
         snapshotStore: api.createFileSnapshotStore({ directory: ${JSON.stringify(directory)} }) }`
    : 'options'
  const stop = join(root, `stop-${randomUUID()}`)
  const source = `
    const owner = api.createDockerSandboxEnvironment(${given})
    const { existsSync } = await import('node:fs')
    const stopped = () => existsSync(${JSON.stringify(stop)})
    const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
    ${program}
    await owner.close()`
  let ready
  const isReady = new Promise(resolve => (ready = resolve))
  const started = (child, text) => text.includes('ready\n') && ready(child)
  const ended = runProgram(ownerId, source, { started, timeoutMs: 60_000, within })
  return {
    ready: () => Promise.race([isReady, ended.then(end => assert.fail(`it ended: ${JSON.stringify(end)}`))]),
    ended,
    async end() {
      writeFileSync(stop, '')
      const { code, signal, stdout, stderr } = await ended
      assert.deepEqual([code, signal, stderr], [0, null, ''])
      return stdout
    },
  }
}

test('two host processes sweep one engine all the time, and neither touches what the other has or makes', async () => {
  // Each has its leases in a memory of its own: the other knows nothing of them.
  const program = `
    const held = await owner.acquire({ runId: 'held' + process.pid })
    await held.writeFile('f', 'x')
    console.log('ready')
    let [rounds, removed] = [0, []]
    const sweeping = (async () => {
      while (!stopped()) {
        const { expiredRuns, failures, ...rest } = await owner.sweep()
        removed.push(...expiredRuns, ...failures, ...Object.values(rest).flat())
        rounds++
        await pause(5)
      }
    })()
    for (let n = 0; !stopped(); n++) {
      const session = await owner.acquire({ runId: 'short' + process.pid + n })
      await session.writeFile('f', 'x')
      await session.release({ status: n % 2 ? 'completed' : 'suspended' })
      if (n % 2 === 0) await (await owner.acquire({ runId: 'short' + process.pid + n })).release({ status: 'completed' })
    }
    await sweeping
    const { contents } = await held.readFile('f', { encoding: 'utf8' })
    await held.release({ status: 'completed' })
    console.log(JSON.stringify({ rounds, removed, contents }))`
  const hosts = [host(program), host(program)]
  await Promise.all(hosts.map(one => one.ready()))
  // And an environment of this process, whose leases are elsewhere too.
  const mine = environment()
  const session = await mine.acquire({ runId: randomUUID() })
  for (let round = 0; round < 10; round++) assert.deepEqual(await mine.sweep(), swept())
  const said = await Promise.all(hosts.map(one => one.end()))
  for (const text of said) {
    const { rounds, removed, contents } = JSON.parse(text.trim().split('\n').at(-1))
    assert.ok(rounds >= 3, `${rounds} sweeps`)
    assert.deepEqual([removed, contents], [[], 'x'])
  }
  assert.deepEqual((await session.list()).entries, [])
  await session.release({ status: 'completed' })
  await mine.close()
})

test('of two sweeps at once one removes what a dead host left, and both end well', async () => {
  const directory = join(root, 'dead')
  const dying = host(
    `for (const runId of ['a', 'b', 'c']) await owner.acquire({ runId })
     await (await owner.acquire({ runId: 'd' })).release({ status: 'suspended' })
     process.kill(process.pid, 'SIGKILL')`,
    // Its leases are gone with it.
  )
  assert.equal((await dying.ended).signal, 'SIGKILL')
  const were = await names()
  assert.equal(were.length, 4)
  const owners = [environment(stores(directory)), environment(stores(directory))]
  const reports = await Promise.all(owners.map(owner => owner.sweep()))
  assert.deepEqual(
    reports.flatMap(({ failures }) => failures),
    [],
  )
  const removed = reports.flatMap(({ removedContainers }) => removedContainers)
  assert.deepEqual([...new Set(removed)].toSorted(), were)
  assert.deepEqual(await containers(), [])
  for (const owner of owners) await owner.close()
})

test('another environment of this process with leases of its own is left alone, until it is closed', async () => {
  const [one, other] = [environment(), environment()]
  const session = await one.acquire({ runId: randomUUID() })
  const [{ Id }] = await containers()
  // The same two minutes after their creation: an engine does not let its labels be changed, so the clock is not what tells.
  assert.deepEqual(await other.sweep(), swept())
  const { Config } = await client.inspectContainer(Id)
  assert.match(Config.Labels['zhivex.sandbox.maker'], /^([0-9a-f]{16}:){2}\d+:\d+:\d+$/)
  await session.release({ status: 'completed' })
  await Promise.all([one.close(), other.close()])
})

test('a holder in another namespace of process ids is none that has ended, to an acquire and to a sweep', async () => {
  const directory = join(root, 'namespaces')
  const holder = host(
    `const session = await owner.acquire({ runId: 'r' })
     await session.writeFile('f', 'x')
     console.log('ready')
     while (!stopped()) await pause(20)
     console.log((await session.readFile('f', { encoding: 'utf8' })).contents)
     await session.release({ status: 'completed' })`,
    directory,
    ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'],
  )
  await holder.ready()
  // With its stores, and with others, to which only the label of its container says that it lives.
  const [sharing, apart] = [environment(stores(directory)), environment()]
  try {
    assert.equal((await failureOf(sharing.acquire({ runId: 'r' }))).name, 'ConflictError')
    assert.deepEqual([await sharing.sweep(), await apart.sweep()], [swept(), swept()])
  } finally {
    assert.equal(await holder.end(), 'ready\nx\n')
    await Promise.all([sharing.close(), apart.close()])
  }
})

test('how old a container is the clock of its engine tells, which may be minutes behind', async () => {
  const owner = environment()
  const session = await owner.acquire({ runId: randomUUID() })
  const [{ Names, Labels }] = await containers()
  await session.release({ status: 'completed' })
  // As another host makes it, that has not put it on record yet.
  const maker = `${'0'.repeat(16)}:${'0'.repeat(16)}:1:1:1`
  const name = Names[0].slice(1)
  const { Id } = await engine('POST', `/containers/create?name=${name}`, {
    Image: BUSYBOX,
    Cmd: ['sleep', '309'],
    Labels: { ...Labels, 'zhivex.sandbox.maker': maker },
    HostConfig: { NetworkMode: 'none' },
  })
  const minutesBehind = head =>
    head.replace(/^Date: (.*)$/im, (_, date) => `Date: ${new Date(Date.parse(date) - 300_000).toUTCString()}`)
  const clock = { path: /^\/_ping/, head: minutesBehind }
  const list = {
    path: /^\/containers\/json/,
    body: found => found.map(one => ({ ...one, Created: one.Created - 300 })),
  }
  const sweep = rules =>
    behindProxy(rules, async ({ socketPath }) => {
      const sweeping = environment({ socketPath })
      const report = await sweeping.sweep()
      await sweeping.close()
      return report
    })
  try {
    assert.deepEqual(await sweep([clock, list]), swept())
    // By the same clock it is five minutes old.
    assert.deepEqual(await sweep([list]), swept({ removedContainers: [name] }))
  } finally {
    await client.removeContainer(Id).catch(() => undefined)
    await owner.close()
  }
})

test('a container of an image with our labels is nobody`s, whatever it is called', async () => {
  const dying = host(`await owner.acquire({ runId: 'r' }); process.kill(process.pid, 'SIGKILL')`)
  await dying.ended
  const [{ Id, Names }] = await containers()
  const { Id: image } = await engine('POST', `/commit?container=${Id}&repo=labelled&tag=test&pause=false`)
  const owner = environment()
  const { Id: theirs } = await engine('POST', `/containers/create?name=theirs-${randomUUID()}`, {
    Image: image,
    Entrypoint: ['/bin/sleep', '309'],
    Cmd: [],
    HostConfig: { NetworkMode: 'none' },
  })
  try {
    const report = await owner.sweep()
    assert.deepEqual(report, swept({ removedContainers: Names.map(name => name.slice(1)) }))
    const { Config } = await client.inspectContainer(theirs)
    assert.equal(Config.Labels['zhivex.sandbox.owner'], ownerId)
  } finally {
    await client.removeContainer(theirs)
    await engine('DELETE', `/images/${encodeURIComponent(image)}?force=true`)
    await owner.close()
  }
})

test('images: those of dead hosts go, of a live one or with another name none does', async () => {
  const program = `const owned = api.createDockerSandboxEnvironment({ ...options, snapshot: 'docker-commit' })
    const session = await owned.acquire({ runId: 'r' + process.pid })
    await session.snapshot()
    console.log('ready')`
  const all = async () =>
    (await engine('GET', '/images/json')).flatMap(({ Id, RepoTags }) =>
      RepoTags?.some(tag => tag.startsWith('zhivex-sandbox/')) ? [Id] : [],
    )
  const living = host(
    `${program}; while (!stopped()) await pause(20); await session.release({ status: 'completed' }); await owned.close()`,
  )
  await living.ready()
  const [theirs] = await all()
  const dying = host(`${program}; process.kill(process.pid, 'SIGKILL')`)
  await dying.ended
  const left = (await all()).filter(id => id !== theirs)
  assert.equal(left.length, 1)
  const owner = environment({ snapshot: 'docker-commit' })
  try {
    // Somebody gave it another name as well, and so means to keep it.
    await engine('POST', `/images/${encodeURIComponent(left[0])}/tag?repo=kept&tag=test`)
    const report = await owner.sweep()
    assert.deepEqual([report.removedImages, report.failures], [left, []])
    assert.deepEqual(await all(), [theirs])
    assert.equal((await engine('GET', '/images/kept:test/json')).Id, left[0])
    await engine('DELETE', '/images/kept:test')
    // Of another environment, by its fingerprint.
    const other = environment({ snapshot: 'docker-commit', limits: { pids: 77 } })
    assert.deepEqual((await other.sweep()).removedImages, [])
    await other.close()
  } finally {
    await living.end()
    await owner.close()
  }
  assert.deepEqual(await all(), [])
})

test('volumes: an old supervisor`s goes where no container has it; ours, used ones and strangers` stay', async () => {
  const digest = () => randomBytes(32).toString('hex')
  const named = of => `zhivex-supervisor-${of.slice(0, 32)}`
  const labels = of => ({ 'zhivex.supervisor': '1', 'zhivex.supervisor.digest': of })
  const create = async (Name, Labels) => (await engine('POST', '/volumes/create', { Name, Labels })).Name
  const [old, used, stranger] = [digest(), digest(), digest()]
  await create(named(old), labels(old))
  const kept = [
    await create(named(used), labels(used)),
    await create(`zhivex-supervisor-${randomUUID()}`, labels(stranger)),
    await create(named(stranger), { ...labels(stranger), mine: 'yes' }),
  ]
  // Created, and not even started.
  const { Id } = await engine('POST', '/containers/create', {
    Image: BUSYBOX,
    Cmd: ['true'],
    HostConfig: { NetworkMode: 'none', Mounts: [{ Type: 'volume', Source: named(used), Target: '/v' }] },
  })
  const owner = environment()
  try {
    const session = await owner.acquire({ runId: randomUUID() })
    const report = await owner.sweep()
    assert.deepEqual([report.removedVolumes, report.failures], [[named(old)], []])
    await session.exec({ command: 'true' })
    await session.release({ status: 'completed' })
    const left = (await engine('GET', '/volumes')).Volumes.map(({ Name }) => Name)
    for (const name of kept) assert.ok(left.includes(name), name)
    await client.removeContainer(Id)
    assert.deepEqual((await owner.sweep()).removedVolumes, [named(used)])
  } finally {
    await client.removeContainer(Id).catch(() => undefined)
    for (const name of kept) await engine('DELETE', `/volumes/${name}`).catch(() => undefined)
    await owner.close()
  }
})

test('temporary files: what a host left that died while it saved goes, what one writes stays', async () => {
  const directory = join(root, 'files')
  const inFolder = ending => (existsSync(directory) ? readdirSync(directory).filter(name => name.endsWith(ending)) : [])
  const program = `const session = await owner.acquire({ runId: 'r' + process.pid })
    await session.exec({ command: 'sh', args: ['-c', 'head -c 3000000 /dev/urandom >f'] })`
  // Its own store hands a part of the tar on, and then no more.
  const slow = `const store = api.createFileSnapshotStore({ directory: ${JSON.stringify(directory)} })
    const snapshotStore = {
      load: key => store.load(key),
      remove: key => store.remove(key),
      save: (key, meta, tar) => store.save(key, meta, (async function* () {
        let given = 0
        for await (const piece of tar) {
          yield piece
          given += piece.length
          if (given > 1_000_000) {
            console.log('ready')
            THEN
          }
        }
      })()),
    }
    owner = api.createDockerSandboxEnvironment({ ...options, snapshotStore })`
  const source = then => `${slow.replace('THEN', then).replace('owner =', 'const saving =')}
    ${program.replace('owner.', 'saving.')}
    await session.snapshot()
    await session.release({ status: 'completed' })
    await saving.close()`
  const dying = host(source(`process.kill(process.pid, 'SIGKILL')`))
  await dying.ended
  assert.equal(inFolder('.tmp').length, 1)
  const [left] = inFolder('.tmp')
  const living = host(source('while (!stopped()) await pause(20)'))
  await living.ready()
  const owner = environment(stores(directory))
  try {
    // The one that saves has collected it; what it writes itself nobody does.
    await eventually('it writes', () => inFolder('.tmp').some(name => name !== left))
    const report = await owner.sweep()
    assert.deepEqual(report.failures, [])
    assert.equal(inFolder('.tmp').length, 1)
  } finally {
    await living.end()
  }
  const last = host(source(`process.kill(process.pid, 'SIGKILL')`))
  await last.ended
  const torn = inFolder('.tmp')
  assert.equal(torn.length, 1)
  assert.deepEqual((await owner.sweep()).removedFiles, torn)
  assert.deepEqual([inFolder('.tmp'), inFolder('.snapshot')], [[], []])
  await owner.close()
})

test('once its container is gone every call says so, and a release ends well', async () => {
  const owner = environment()
  const session = await owner.acquire({ runId: randomUUID() })
  await session.writeFile('f', 'x')
  const [{ Id }] = await containers()
  await client.removeContainer(Id)
  for (const call of ['exec', 'writeFile', 'snapshot', 'list']) {
    const argument = { exec: [{ command: 'true' }], writeFile: ['f', 'y'], snapshot: [], list: [] }[call]
    assert.equal(await codeOf(session[call](...argument)), 'CONTAINER_LOST', call)
  }
  await session.release({ status: 'completed' })
  await owner.close()
})

leavesNothing()
