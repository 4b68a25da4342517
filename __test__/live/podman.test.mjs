// Podman's compatible socket takes some fields of a container in another meaning than Docker does. What a container of ours
// has there is asked inside; what the engine has on record is not always it.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore } from '../../index.js'
import { BUSYBOX, DEBIAN, HOSTILE, engine, failureOf, lab, sh } from '../support/live.mjs'
import { reaching } from '../support/network.mjs'

const { client, containers, environment, inSession, leavesNothing } = lab()
const MIB = 2 ** 20
const TRANSPORTS = ['resident', 'exec']
const best = (transport, more) => ({ transport, assurance: 'best-effort', ...more })

/** A variable of the host that the service has; the images of these tests declare the same name. */
const OF_THE_HOST = process.env.SANDBOX_TEST_PODMAN_SECRET

/** `name: value` lines of a file in /proc. */
const fields = text => Object.fromEntries(text.split('\n').map(line => line.split(':').map(part => part.trim())))

test('the engine is Podman, and its service has a variable that an image declares too', async () => {
  const { Components } = await engine('GET', '/version')
  assert.equal(Components[0].Name, 'Podman Engine')
  assert.ok(OF_THE_HOST, 'SANDBOX_TEST_PODMAN_SECRET is not set: npm run test:podman')
})

test('enforced says what cannot be, before anything is made', async () => {
  for (const transport of TRANSPORTS) {
    const owner = environment({ transport, assurance: 'enforced' })
    const error = await failureOf(owner.acquire({ runId: randomUUID() }))
    assert.equal(error.code, 'UNSUPPORTED')
    assert.match(
      error.message,
      /cannot enforce: the number of files in the workspace, a seccomp .* user namespaces\. .*best-effort/,
    )
    await owner.close()
  }
  assert.deepEqual(await containers(), [])
})

test('a runtime is refused: Podman would start its own without a word', async () => {
  const owner = environment(best('exec', { runtime: 'runsc' }))
  const error = await failureOf(owner.acquire({ runId: randomUUID() }))
  assert.equal(error.code, 'UNSUPPORTED')
  assert.match(error.message, /runtime was "runsc", but Podman takes no runtime/)
  await owner.close()
  assert.deepEqual(await containers(), [])
})

test('auto does without the resident transport, and says why', () =>
  inSession(best('auto'), async session => {
    assert.equal(session.capabilities.transport, 'exec')
    assert.match(session.capabilities.fallbackReason, /Podman closes the input of a container's process 1/)
  }))

test('an allowlist has the resident transport, and is refused with the other one', async () => {
  const { options } = reaching([443])
  await inSession(best('auto', options), async session => {
    assert.equal(session.capabilities.transport, 'resident')
    assert.equal(await sh(session, 'ls /sys/class/net'), 'lo\n')
  })
  const owner = environment(best('exec', options))
  const error = await failureOf(owner.acquire({ runId: randomUUID() }))
  assert.equal(error.code, 'UNSUPPORTED')
  assert.match(error.message, /told no gateway address/)
  await owner.close()
})

for (const transport of TRANSPORTS) {
  test(`the profile inside [${transport}]`, () =>
    inSession(best(transport, { limits: { cpus: 0.5 } }), async session => {
      const status = fields(await sh(session, 'cat /proc/self/status'))
      assert.deepEqual(
        ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map(name => BigInt(`0x${status[name]}`)),
        [0n, 0n, 0n, 0n, 0n],
      )
      assert.deepEqual([status.NoNewPrivs, status.Seccomp, status.Uid.split(/\s+/)[0]], ['1', '2', '65534'])
      const interfaces = await sh(session, 'ls /sys/class/net')
      assert.equal(interfaces.trim(), 'lo')
      assert.match(
        await sh(session, 'cat /proc/self/limits'),
        /^Max core file size +1 +1 .*^Max msgqueue size +0 +0 /ms,
      )
      assert.equal(await sh(session, 'cat /proc/sys/kernel/shm_rmid_forced'), '1\n')
      assert.equal(await sh(session, 'ls /dev/shm 2>&1 || true'), 'ls: /dev/shm: No such file or directory\n')
      const [{ Id }] = await containers()
      const { HostConfig } = await client.inspectContainer(Id)
      assert.deepEqual(
        [HostConfig.Memory, HostConfig.MemorySwap, HostConfig.NanoCpus, HostConfig.PidsLimit],
        [256 * MIB, 256 * MIB, 500_000_000, 64],
      )
    }))

  test(`what a limit is for happens [${transport}]`, () =>
    inSession(best(transport, { limits: { memoryMb: 96, pids: 24 } }), async session => {
      const many = await session.exec({
        command: 'sh',
        args: ['-c', 'n=0; while [ $n -lt 60 ]; do sleep 2 & n=$((n+1)); done; echo all'],
        timeoutMs: 30_000,
      })
      assert.notEqual(many.stdout, 'all\n')
      const hungry = await session.exec({
        command: 'sh',
        args: ['-c', 'x=$(head -c 200000000 /dev/zero | tr "\\0" x)'],
      })
      assert.notDeepEqual([hungry.outcome, hungry.exitCode], ['exited', 0])
    }))

  test(`nothing but the workspace can be written to [${transport}]`, () =>
    inSession(best(transport, { image: HOSTILE }), async session => {
      for (const place of [
        '/',
        '/run',
        '/tmp',
        '/var/tmp',
        '/data',
        '/dev',
        '/dev/shm',
        '/etc',
        '/.sandbox',
        '/sys/fs/cgroup',
      ]) {
        assert.equal(await sh(session, `touch ${place}/x 2>/dev/null || echo refused`), 'refused\n', place)
      }
      assert.equal(await sh(session, 'touch x && stat -c "%u %g %a" . && ls'), '65534 65534 700\nx\n')
      const full = await session.exec({ command: 'sh', args: ['-c', 'head -c 80000000 /dev/zero > big'] })
      assert.notEqual(full.exitCode, 0)
    }))

  test(`neither the image's variables nor the service's reach a command [${transport}]`, () =>
    inSession(best(transport, { image: HOSTILE, env: { MINE: 'v' } }), async session => {
      const variables = await sh(session, 'env')
      assert.match(variables, /^MINE=v$/m)
      assert.match(variables, /^SECRET=$/m)
      assert.match(variables, /^LD_PRELOAD=$/m)
      assert.ok(!variables.includes(OF_THE_HOST))
    }))

  for (const image of [BUSYBOX, DEBIAN]) {
    test(`commands, files and a second start of a run [${transport}, ${image.slice(13, -7)}]`, async () => {
      const owner = environment(best(transport, { image, tmp: { sizeMb: 4 } }))
      const runId = randomUUID()
      const session = await owner.acquire({ runId })
      await session.writeFile('a/é', 'x')
      assert.equal((await session.readFile('a/é', { encoding: 'utf8' })).contents, 'x')
      assert.equal(await sh(session, 'touch /tmp/t && cat a/é'), 'x')
      assert.equal((await session.exec({ command: 'sh', args: ['-c', 'exit 7'] })).exitCode, 7)
      const late = await session.exec({ command: 'sleep', args: ['300'], timeoutMs: 500 })
      assert.equal(late.outcome, 'timed_out')
      await session.release({ status: 'suspended' })
      const again = await owner.acquire({ runId })
      assert.equal((await again.readFile('a/é', { encoding: 'utf8' })).contents, 'x')
      await again.release({ status: 'completed' })
      await owner.close()
      assert.deepEqual(await containers(), [])
    })
  }

  test(`a name that is taken is a conflict, and the other container stays [${transport}]`, () =>
    inSession(best(transport), async (_session, { runId }) => {
      const stranger = environment(best(transport, { leaseStore: createMemoryLeaseStore() }))
      const error = await failureOf(stranger.acquire({ runId }))
      assert.deepEqual(
        [error.name, /sweep\(\).*exists already/.test(error.message)],
        ['ConflictError', true],
        error.message,
      )
      await stranger.close()
      assert.equal((await containers()).length, 1)
    }))
}

leavesNothing()
