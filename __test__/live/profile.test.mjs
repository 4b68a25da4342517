// The reference profile row by row: as the engine has it on record, and as a command inside finds it.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createMemoryLeaseStore, dockerSandboxSecurityDefaults as defaults } from '../../index.js'
import { BUSYBOX, DEBIAN, MOUNTS, PROCESS_1, lab, mountsOf, sh, transport } from '../support/live.mjs'

const { client, containers, environment, leavesNothing } = lab()
const MIB = 2 ** 20

/** A session with nothing but the defaults and a shell. */
async function withDefaults(image, use, options = {}) {
  const owner = environment({ image, ...options, limits: { cpus: undefined, ...options.limits } })
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    const [{ Id }] = await containers()
    await use(session, await client.inspectContainer(Id))
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
}

/** `name: value` lines of a file in /proc. */
const fields = text => Object.fromEntries(text.split('\n').map(line => line.split(':').map(part => part.trim())))

test('variables of the application reach commands, and with the resident transport neither process 1 nor the record', async () => {
  const env = {
    TOKEN: 'secret',
    GLIBC_TUNABLES: 'glibc.malloc.check=3',
    LD_DEBUG_OUTPUT: '/nowhere',
    HOME: '/elsewhere',
  }
  const leaseStore = createMemoryLeaseStore()
  const runId = randomUUID()
  /** What commands have, and what the container has; of a session that then lets go. */
  const look = async (given, status) => {
    const owner = environment({ env: given, leaseStore })
    const session = await owner.acquire({ runId })
    try {
      const [{ Id }] = await containers()
      const inside = Object.fromEntries((await sh(session, 'env')).split('\n').map(line => line.split(/=(.*)/s)))
      const { Config } = await client.inspectContainer(Id)
      return { inside, record: Config.Env.map(line => line.split('=')[0]).toSorted() }
    } finally {
      await session.release({ status })
      await owner.close()
    }
  }
  const first = await look(env, 'suspended')
  for (const [name, value] of Object.entries(env)) assert.equal(first.inside[name], value, name)
  const ours = ['HOME', 'PATH', 'TMPDIR']
  assert.deepEqual(first.record, transport === 'exec' ? [...new Set([...ours, ...Object.keys(env)])].toSorted() : ours)
  // Values may be others when the run is resumed, as a token that was renewed.
  const second = await look({ ...env, TOKEN: 'renewed' }, 'completed')
  assert.equal(second.inside.TOKEN, transport === 'exec' ? 'secret' : 'renewed')
})

for (const image of [BUSYBOX, DEBIAN]) {
  const name = image.slice(13, -7)

  test(`on record [${name}]`, () =>
    withDefaults(image, (session, inspection) => {
      const { Config, HostConfig, Name, State } = inspection
      assert.deepEqual([State.Running, State.Status, State.OOMKilled], [true, 'running', false])
      assert.match(Name, /^\/zhivex-sandbox-[0-9a-f]{24}$/)
      assert.equal(Config.Image, image)
      assert.deepEqual([Config.User, defaults.user], ['65534:65534', '65534:65534'])
      assert.equal(Config.WorkingDir, '/workspace')
      assert.deepEqual(Config.Entrypoint.slice(0, 2), PROCESS_1)
      assert.deepEqual([HostConfig.AutoRemove, Config.OpenStdin], [transport !== 'exec', transport !== 'exec'])
      assert.deepEqual(Config.Healthcheck.Test, ['NONE'])
      assert.deepEqual(Config.Env.map(line => line.split('=')[0]).toSorted(), ['HOME', 'PATH', 'TMPDIR'])
      assert.deepEqual([HostConfig.NetworkMode, defaults.network], ['none', 'none'])
      assert.deepEqual([HostConfig.ReadonlyRootfs, defaults.readOnlyRoot], [true, true])
      assert.deepEqual([HostConfig.Memory, HostConfig.MemorySwap], [256 * MIB, 256 * MIB])
      assert.deepEqual([defaults.memoryMb, defaults.swap], [256, false])
      assert.deepEqual([HostConfig.NanoCpus, defaults.cpus], [500_000_000, 0.5])
      assert.deepEqual([HostConfig.PidsLimit, defaults.pids], [64, 64])
      assert.deepEqual([HostConfig.CapDrop, HostConfig.CapAdd, defaults.capDrop], [['ALL'], null, ['ALL']])
      assert.deepEqual([HostConfig.SecurityOpt, defaults.noNewPrivileges], [['no-new-privileges:true'], true])
      assert.deepEqual([HostConfig.Privileged, HostConfig.Binds, HostConfig.Devices], [false, null, null])
      assert.deepEqual(
        [HostConfig.IpcMode, HostConfig.PidMode, HostConfig.UTSMode, HostConfig.UsernsMode],
        ['none', '', '', ''],
      )
      assert.equal(HostConfig.Sysctls['kernel.shm_rmid_forced'], '1')
      assert.deepEqual(HostConfig.RestartPolicy, { Name: '', MaximumRetryCount: 0 })
      assert.ok(
        HostConfig.Ulimits.every(({ Hard, Soft }) => Hard === Soft && Hard <= 1),
        JSON.stringify(HostConfig.Ulimits),
      )
      assert.deepEqual(HostConfig.Ulimits.map(({ Name }) => Name).toSorted(), ['core', 'msgqueue'])
      assert.deepEqual(HostConfig.Tmpfs, {
        '/workspace': `rw,nosuid,nodev,noexec,size=${64 * MIB},nr_inodes=16384,uid=65534,gid=65534,mode=0700`,
      })
      // No volume that can be written, so nothing on the engine's disk.
      assert.deepEqual(mountsOf(inspection), MOUNTS)
      const labels = Object.keys(Config.Labels).filter(label => label.startsWith('zhivex'))
      const parts = ['', '.environment', '.fingerprint', '.key', '.maker', '.nonce', '.owner']
      if (transport !== 'exec') parts.push('.supervisor')
      assert.deepEqual(
        labels.toSorted(),
        parts.map(part => `zhivex.sandbox${part}`),
      )
      assert.equal(Config.Labels['zhivex.sandbox.fingerprint'], session.binding.fingerprint)
    }))

  test(`user, capabilities and privileges inside [${name}]`, () =>
    withDefaults(image, async session => {
      const status = fields(await sh(session, 'cat /proc/self/status'))
      assert.deepEqual(
        [status.Uid, status.Gid, status.Groups],
        ['65534\t65534\t65534\t65534', '65534\t65534\t65534\t65534', '65534'],
      )
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.equal(status[set], '0000000000000000', set)
      assert.deepEqual([status.NoNewPrivs, status.Seccomp], ['1', '2'])
      assert.equal(await sh(session, 'id -u; id -g'), '65534\n65534\n')
      assert.equal(await sh(session, 'stat -c "%u %g" /proc/1'), '65534 65534\n')
      const forbidden = [
        'unshare -U true',
        'unshare -m true',
        'mount -t tmpfs x /workspace',
        'mount -o remount,rw /',
        'umount /workspace',
        'chroot / true',
        'hostname other',
        'mknod /workspace/dev b 8 0',
        'chown 1 /workspace',
        'nice -n -5 true 2>&1 | grep -q .',
        'echo 1 >/proc/sys/kernel/shmmax',
        'echo b >/proc/sysrq-trigger',
        'cat /proc/kcore',
      ]
      for (const script of forbidden) {
        const expected = script.startsWith('nice') ? 0 : undefined
        const { exitCode } = await session.exec({ command: 'sh', args: ['-c', script] })
        if (expected === undefined) assert.notEqual(exitCode, 0, script)
      }
    }))

  test(`limits inside [${name}]`, () =>
    withDefaults(image, async session => {
      const [memory, pids, cpu] = await Promise.all([
        sh(session, 'cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes'),
        sh(session, 'cat /sys/fs/cgroup/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids/pids.max'),
        sh(
          session,
          'cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us',
        ),
      ])
      assert.deepEqual([memory.trim(), pids.trim()], [String(256 * MIB), '64'])
      const [quota, period] = cpu.trim().split(/\s+/).map(Number)
      assert.equal(quota / period, 0.5)
      const limits = await sh(session, 'cat /proc/self/limits')
      assert.match(limits, /Max core file size\s+[01]\s+[01]\s/)
      assert.match(limits, /Max msgqueue size\s+0\s+0\s/)
    }))

  test(`mounts inside [${name}]`, () =>
    withDefaults(image, async session => {
      const mounts = (await sh(session, 'cat /proc/self/mounts'))
        .trim()
        .split('\n')
        .map(line => line.split(' '))
      const optionsOf = path => mounts.findLast(mount => mount[1] === path)?.[3].split(',')
      assert.ok(optionsOf('/').includes('ro'))
      const workspace = optionsOf('/workspace')
      for (const option of [
        'rw',
        'nosuid',
        'nodev',
        'noexec',
        'size=65536k',
        'nr_inodes=16384',
        'uid=65534',
        'gid=65534',
      ]) {
        assert.ok(workspace.includes(option), `${option} of ${workspace}`)
      }
      for (const path of ['/proc/sys', '/sys', '/etc/hosts', '/etc/hostname', '/etc/resolv.conf'])
        assert.ok(optionsOf(path).includes('ro'), path)
      assert.equal(await sh(session, 'ls -d /dev/shm 2>/dev/null || echo none'), 'none\n')
      const disks = mounts.filter(
        ([device, , , options]) => device.startsWith('/dev/') && !options.split(',').includes('ro'),
      )
      assert.deepEqual(disks, [])
    }))

  test(`network inside [${name}]`, () =>
    withDefaults(image, async session => {
      assert.equal(await sh(session, 'ls /sys/class/net'), 'lo\n')
      assert.equal(await sh(session, 'tail -n +2 /proc/net/route'), '')
      assert.equal(await sh(session, 'cat /etc/hostname'), 'sandbox\n')
    }))

  test(`environment inside [${name}]`, () =>
    withDefaults(image, async session => {
      const { stdout } = await session.exec({ command: 'env' })
      const found = Object.fromEntries(
        stdout
          .trim()
          .split('\n')
          .map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      )
      assert.match(found.PATH, /^(\/[a-z/]+)(:\/[a-z/]+)*$/)
      assert.ok(!/workspace|tmp/.test(found.PATH), found.PATH)
      const { PATH, ...rest } = found
      if (transport === 'exec') {
        // What finds the command again, and what an engine and a shell add. SHLVL is there where the shell keeps one.
        const { ZHIVEX_EXEC_ID, SHLVL, PWD, HOSTNAME, ...others } = rest
        assert.match(ZHIVEX_EXEC_ID, /^[0-9a-f]{32}$/)
        assert.deepEqual([PWD, HOSTNAME, SHLVL ?? '1'], ['/workspace', 'sandbox', '1'])
        assert.deepEqual(others, { HOME: '/workspace', TMPDIR: '/workspace' })
      } else {
        assert.deepEqual(rest, { HOME: '/workspace', TMPDIR: '/workspace' })
      }
      assert.equal(typeof PATH, 'string')
      // Process 1 of the resident transport cannot be looked into at all.
      const first = await sh(session, 'tr "\\0" "\\n" </proc/1/environ 2>/dev/null | cut -d= -f1 | sort')
      assert.equal(first, transport === 'exec' ? 'HOME\nHOSTNAME\nPATH\nTMPDIR\n' : '')
    }))
}

test('every limit that the options change is changed', () =>
  withDefaults(
    BUSYBOX,
    async (session, { Config, HostConfig }) => {
      assert.deepEqual([HostConfig.Memory, HostConfig.MemorySwap], [100 * MIB, 100 * MIB])
      assert.deepEqual([HostConfig.NanoCpus, HostConfig.PidsLimit, Config.User], [250_000_000, 33, '1234:4321'])
      assert.match(HostConfig.Tmpfs['/workspace'], /^rw,nosuid,nodev,exec,size=8388608,.*uid=1234,gid=4321/)
      assert.match(HostConfig.Tmpfs['/tmp'], /^rw,nosuid,nodev,noexec,size=4194304,.*uid=1234,gid=4321/)
      assert.equal(
        await sh(
          session,
          'id -u; id -g; echo $TMPDIR $A; touch /tmp/x; df -k /tmp /workspace | tail -n +2 | awk "{print \\$2}"',
        ),
        '1234\n4321\n/tmp b\n4096\n8192\n',
      )
      const { limits, metadata } = session.manifest
      assert.deepEqual(
        [limits.maxMemoryMb, limits.maxWorkspaceBytes, metadata.cpus, metadata.pids, metadata.user],
        [100, 8 * MIB, 0.25, 33, '1234:4321'],
      )
    },
    {
      user: '1234:4321',
      tmp: { sizeMb: 4 },
      env: { A: 'b' },
      workspace: { exec: true },
      limits: { memoryMb: 100, cpus: 0.25, pids: 33, maxWorkspaceBytes: 8 * MIB },
    },
  ))

leavesNothing()
