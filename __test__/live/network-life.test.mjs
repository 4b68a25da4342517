// The network over the life of a run: who holds it carries it, and what was used counts over all holders.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createFileLeaseStore, createFileSnapshotStore, createMemoryLeaseStore } from '../../index.js'
import { eventually, failureOf, lab, runProgram, sh, transport } from '../support/live.mjs'
import { reaching, serving, webServer } from '../support/network.mjs'
import { goOn, silence, stop } from '../support/stopping.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const { client, ownerId, environment, leavesNothing } = lab()

/** What a shell in the container gets for a request: the page, or how it failed. */
const get = (session, port) => sh(session, `wget -q -O - http://good.test:${port}/ 2>&1 || true`)
const HELLO = /hello from good\.test/

test('a run that is resumed has the network again, and its budget goes on', async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options } = reaching([port], { quotas: { maxNetworkRequests: 3 } })
    const owner = environment(options)
    const runId = randomUUID()
    const first = await owner.acquire({ runId })
    assert.match(await get(first, port), HELLO)
    assert.match(await get(first, port), HELLO)
    await first.release({ status: 'waiting_approval' })
    const second = await owner.acquire({ runId })
    try {
      assert.match(await get(second, port), HELLO)
      assert.match(await get(second, port), /429 Request Quota Used Up/)
      assert.equal(server.requests.length, 3)
    } finally {
      await second.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('a run that is resumed goes on with the bytes that it had left, to the last one', async () => {
  const size = 5000
  await serving(
    webServer((_request, response) => response.end('x'.repeat(size))),
    async port => {
      const fetch = async session => (await sh(session, `wget -q -O - http://good.test:${port}/ | wc -c`)).trim()
      /** Fetches three times, in a session each, from a run that may use so much; what came, and what one cost. */
      const thrice = async maxNetworkBytes => {
        const { options, events } = reaching([port], { quotas: { maxNetworkBytes } })
        const owner = environment(options)
        const [runId, came] = [randomUUID(), []]
        for (const status of ['waiting_approval', 'waiting_approval', 'completed']) {
          const session = await owner.acquire({ runId })
          came.push(await fetch(session))
          await session.release({ status })
        }
        await owner.close()
        const { bytesUp, bytesDown } = events.find(event => event.type === 'network_closed')
        return { came, cost: bytesUp + bytesDown }
      }
      const { came, cost } = await thrice(2 ** 30)
      assert.deepEqual(came, Array(3).fill(String(size)))
      assert.deepEqual((await thrice(2 * cost)).came, [String(size), String(size), '0'])
      const [, second, third] = (await thrice(2 * cost - 1)).came
      assert.ok(Number(second) < size, second)
      assert.equal(third, '0')
    },
  )
})

test('a new run begins with a whole budget', async () => {
  const server = webServer()
  await serving(server, async port => {
    const owner = environment(reaching([port], { quotas: { maxNetworkRequests: 1 } }).options)
    for (let round = 0; round < 2; round++) {
      const session = await owner.acquire({ runId: 'the same' })
      try {
        assert.match(await get(session, port), HELLO)
        assert.match(await get(session, port), /429/)
      } finally {
        await session.release({ status: 'completed' })
      }
    }
    await owner.close()
  })
})

test('while nobody holds the run, a program is refused at once', async () => {
  const server = webServer()
  await serving(server, async port => {
    const owner = environment(reaching([port]).options)
    const runId = randomUUID()
    const first = await owner.acquire({ runId })
    await first.release({ status: 'waiting_approval' })
    const [{ Id }] = await client.listContainers(`zhivex.sandbox.owner=${ownerId}`)
    const began = performance.now()
    const result = await client.exec(Id, {
      cmd: ['/bin/sh', '-c', 'wget -q -O - http://good.test/ 2>&1'],
      user: '65534:65534',
      workingDir: '/',
      timeoutMs: 30_000,
      maxOutputBytes: 4096,
    })
    const said = new TextDecoder().decode(result.stdout)
    assert.match(said, /refused|reset/, said)
    assert.ok(performance.now() - began < 15_000)
    const second = await owner.acquire({ runId })
    assert.match(await get(second, port), HELLO)
    await second.release({ status: 'completed' })
    await owner.close()
  })
})

test('a connection of a run that is released is cut', async () => {
  const server = webServer((_request, response) => response.write('begun\n'))
  await serving(server, async port => {
    const { options } = reaching([port])
    const owner = environment(options)
    const session = await owner.acquire({ runId: randomUUID() })
    const reading = await session.execStream({ command: 'wget', args: ['-q', '-O', '-', `http://good.test:${port}/`] })
    for await (const { data } of reading) {
      if (data.length > 0) break
    }
    await session.release({ status: 'completed' })
    await eventually('the server hears of it', () => server.connections.size === 0)
    await owner.close()
  })
})

/** Rules and a resolver for one port of this machine, and a process that holds a run with them, once it has fetched the page. */
function heldElsewhere(port, directory, runId) {
  const network = { mode: 'allowlist', allowedDomains: ['good.test'], allowedPorts: [port], allowPrivateNetworks: true }
  const program = `
    const mine = api.createDockerSandboxEnvironment({
      ...options,
      network: ${JSON.stringify(network)},
      resolveHost: () => ['127.0.0.1'],
      leaseStore: api.createFileLeaseStore({ directory: ${JSON.stringify(directory)} }),
    })
    const session = await mine.acquire({ runId: ${JSON.stringify(runId)} })
    const { stdout } = await session.exec({ command: 'wget', args: ['-q', '-O', '-', 'http://good.test:${port}/'] })
    console.log(stdout)
    setInterval(() => undefined, 1000)`
  const stores = {
    leaseStore: createFileLeaseStore({ directory }),
    snapshotStore: createFileSnapshotStore({ directory }),
  }
  return { program, stores, options: { network, resolveHost: () => ['127.0.0.1'], ...stores } }
}

test('whoever takes a run over from a process that was killed carries its network', async () => {
  const directory = temporaryDirectory()
  await serving(webServer(), async port => {
    const runId = randomUUID()
    const { program, options } = heldElsewhere(port, directory, runId)
    let told = ''
    await runProgram(ownerId, program, {
      started: (child, said) => {
        told = said
        if (HELLO.test(said)) child.kill('SIGKILL')
      },
    })
    assert.match(told, HELLO)
    const owner = environment(options)
    const session = await owner.acquire({ runId })
    try {
      assert.match(await get(session, port), HELLO)
    } finally {
      await session.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('whoever takes a run over from a process that is stopped carries its network, and so do those that follow', async () => {
  const directory = temporaryDirectory()
  await serving(webServer(), async port => {
    const runId = randomUUID()
    const { program, stores, options } = heldElsewhere(port, directory, runId)
    let child
    const ended = runProgram(ownerId, program, {
      timeoutMs: 60_000,
      started: (process_, said) => {
        if (HELLO.test(said)) child = process_
      },
    })
    const owner = environment(options)
    let session
    try {
      await eventually('it has the network', () => child)
      // What it listened at stays its own while it is stopped.
      await stop(child)
      await silence(stores.leaseStore, ownerId)
      for (const what of ['the next one', 'one that resumes']) {
        session = await owner.acquire({ runId })
        assert.match(await get(session, port), HELLO, what)
        await session.release({ status: 'suspended' })
      }
      child.kill('SIGKILL')
      goOn(child)
      await ended
      session = await owner.acquire({ runId })
      assert.match(await get(session, port), HELLO, 'one that comes when it has ended')
    } finally {
      child?.kill('SIGKILL')
      await session?.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('a process with an allowlist and a resolver of its own ends by itself once all is released and closed', async () => {
  const directory = temporaryDirectory()
  await serving(webServer(), async port => {
    const { program } = heldElsewhere(port, directory, randomUUID())
    const ends = program.replace(
      /setInterval.*/,
      `await session.release({ status: 'completed' })
       await mine.close()
       console.log('closed')`,
    )
    const { code, signal, stdout, stderr } = await runProgram(ownerId, ends)
    assert.deepEqual([code, signal, stderr], [0, null, ''])
    assert.match(stdout, /hello from good\.test[^]*closed/)
  })
})

test('a container of the pool has the network of its run', { skip: transport === 'exec' }, async () => {
  const server = webServer()
  await serving(server, async port => {
    const { options, events } = reaching([port])
    const owner = environment({ ...options, pool: { size: 1 } })
    const first = await owner.acquire({ runId: randomUUID() })
    await first.release({ status: 'completed' })
    await eventually('the pool is filled', () => events.some(event => event.type === 'pooled'))
    const second = await owner.acquire({ runId: randomUUID() })
    try {
      assert.equal(events.findLast(event => event.type === 'acquired').how, 'pooled')
      assert.match(await get(second, port), HELLO)
    } finally {
      await second.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('a resolver that fails, or answers what it may not, lets nobody through', async () => {
  const server = webServer()
  await serving(server, async port => {
    const answers = { 'a.test': undefined, 'b.test': [5], 'c.test': ['127.0.0.1 '], 'd.test': [], 'e.test': 'text' }
    const { options } = reaching([port], { allowedDomains: [...Object.keys(answers), 'f.test'] })
    const owner = environment({
      ...options,
      resolveHost(host) {
        if (host === 'f.test') throw new Error('secret words')
        return answers[host]
      },
    })
    const session = await owner.acquire({ runId: randomUUID() })
    try {
      for (const host of [...Object.keys(answers), 'f.test']) {
        const said = await sh(session, `wget -O - http://${host}:${port}/ 2>&1 || true`)
        assert.match(said, /502/, host)
        assert.doesNotMatch(said, /secret/)
      }
      assert.deepEqual(server.requests, [])
    } finally {
      await session.release({ status: 'completed' })
      await owner.close()
    }
  })
})

test('a resumed run with other rules is a conflict', async () => {
  const runId = randomUUID()
  const leaseStore = createMemoryLeaseStore()
  const [one, other] = [['a.test'], ['b.test']].map(allowedDomains =>
    environment({ ...reaching([443], { allowedDomains }).options, leaseStore }),
  )
  const session = await one.acquire({ runId })
  await session.release({ status: 'suspended' })
  assert.match((await failureOf(other.acquire({ runId }))).message, /another manifest fingerprint/)
  await (await one.acquire({ runId })).release({ status: 'completed' })
  await one.close()
  await other.close()
})

leavesNothing()
