// An image that brings a first process, a volume, a health check, a root user, variables and labels like ours.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOSTILE, MOUNTS, PROCESS_1, engine, lab, mountsOf, sh, transport } from '../support/live.mjs'

const { client, containers, environment, inSession, leavesNothing } = lab()

test('nothing that the image declares has an effect', async () => {
  const volumes = async () => ((await engine('GET', '/volumes')).Volumes ?? []).map(({ Name }) => Name)
  const before = await volumes()
  await inSession({ image: HOSTILE }, async session => {
    const [{ Id, Labels }] = await containers()
    const found = await client.inspectContainer(Id)
    assert.deepEqual(mountsOf(found), MOUNTS)
    assert.equal(found.Config.User, '65534:65534')
    assert.deepEqual(found.Config.Healthcheck.Test, ['NONE'])
    assert.equal(found.State.Health, undefined)
    assert.deepEqual([found.Path, ...found.Args].slice(0, PROCESS_1.length), PROCESS_1)
    assert.equal(found.Config.WorkingDir, '/workspace')
    assert.deepEqual(found.NetworkSettings.Ports, {})
    // Ours, and the forged one that has no name of ours is blank.
    assert.notEqual(Labels['zhivex.sandbox.owner'], 'somebody')
    assert.equal(Labels['zhivex.sandbox.fingerprint'], session.binding.fingerprint)
    assert.equal(Labels['zhivex.sandbox.run'], '')
    const env = (await session.exec({ command: 'env' })).stdout
    assert.ok(!/LD_PRELOAD|SECRET/.test(env), env)
    assert.match(env, /^PATH=\/bin:\/usr\/bin$/m)
    assert.equal(
      await sh(session, 'tr "\\0" "\\n" </proc/1/environ 2>/dev/null | cut -d= -f1 | sort | tr "\\n" " "'),
      transport === 'exec' ? 'HOME HOSTNAME PATH TMPDIR ' : '',
    )
    assert.equal(
      await sh(session, 'for p in /proc/[0-9]*; do tr "\\0" " " <"$p/cmdline"; done | grep -c "[e]vil" || :'),
      '0\n',
    )
    assert.equal(await sh(session, 'ls -A /data; touch /data/x 2>/dev/null || echo refused'), 'refused\n')
    assert.equal(await sh(session, 'pwd; id -u'), '/workspace\n65534\n')
  })
  assert.deepEqual(
    (await volumes()).filter(name => !before.includes(name) && !name.startsWith('zhivex-supervisor-')),
    [],
  )
})

test('its search path does not lead into the workspace', () =>
  inSession(
    {
      image: HOSTILE,
      workspace: { exec: true, files: [{ path: 'bin/ls', contents: '#!/bin/sh\necho evil\n', mode: 0o755 }] },
    },
    async session => {
      assert.equal((await session.exec({ command: 'ls' })).stdout, 'bin\n')
      assert.equal(await sh(session, 'ls', { env: {} }), 'bin\n')
    },
  ))

test('a container of the image that is not ours is not swept', async () => {
  const owner = environment({ image: HOSTILE, ownerId: 'somebody' })
  const { Id } = await engine('POST', '/containers/create', { Image: HOSTILE, HostConfig: { NetworkMode: 'none' } })
  try {
    assert.deepEqual((await owner.sweep()).removedContainers, [])
    assert.equal((await client.inspectContainer(Id)).Id, Id)
  } finally {
    await engine('DELETE', `/containers/${Id}?force=1&v=1`)
    await owner.close()
  }
})

leavesNothing()
