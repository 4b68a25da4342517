// gVisor's kernel keeps other promises than Linux: process 1 cannot be protected there, and must say so.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { supervisorPath } from '../../scripts/build-supervisor.mjs'
import { engine, failureOf, lab, sh } from '../support/live.mjs'
import { removeVolume, supervisors, volumeWith } from '../support/supervisor-volume.mjs'

const { containers, environment, inSession, leavesNothing } = lab()
const RUNSC = { runtime: 'runsc' }

const refused = () => failureOf(environment({ ...RUNSC, transport: 'resident' }).acquire({ runId: randomUUID() }))

test('the engine has gVisor', async () => {
  const { Runtimes } = await engine('GET', '/info')
  assert.ok(
    Runtimes.runsc,
    'runsc is not a runtime of this engine: install the Debian package runsc, then start it anew',
  )
})

test('the exec transport works in gVisor', () =>
  inSession({ ...RUNSC, transport: 'exec' }, async session => {
    assert.match(await sh(session, 'dmesg'), /gVisor/)
    await session.writeFile('a/f', 'x')
    assert.equal((await session.readFile('a/f', { encoding: 'utf8' })).contents, 'x')
    const late = await session.exec({ command: 'sleep', args: ['300'], timeoutMs: 500 })
    assert.equal(late.outcome, 'timed_out')
  }))

test('gVisor does not run what may not be read: resident is refused, auto goes without', async () => {
  const error = await refused()
  assert.equal(error.code, 'DOCKER_API')
  assert.match(error.message, /failed to load \/\.sandbox\/supervisor: permission denied/)
  assert.deepEqual(await containers(), [])
  await inSession({ ...RUNSC, transport: 'auto' }, async session => {
    assert.equal(session.capabilities.transport, 'exec')
    assert.match(session.capabilities.fallbackReason, /permission denied.*set transport: "exec"/)
    assert.match(await sh(session, 'dmesg'), /gVisor/)
  })
})

test('where it may be read it ends by itself: that kernel has not what its protection rests on', async () => {
  await inSession({ transport: 'resident' }, async () => undefined)
  const [name] = await supervisors()
  const { Labels: labels } = await engine('GET', `/volumes/${name}`)
  await volumeWith({ name, labels }, [
    ['supervisor', readFileSync(supervisorPath())],
    ['complete', 'x'],
  ])
  try {
    const error = await refused()
    assert.equal(error.code, 'UNSUPPORTED', error.message)
    assert.match(error.message, /its kernel refuses what the protection of process 1 rests on/)
    assert.deepEqual(await containers(), [])
  } finally {
    await removeVolume(name)
  }
})

leavesNothing()
