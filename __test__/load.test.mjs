// What is said where the addon cannot be loaded, for platforms that are not this one.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { SandboxError } from '../index.js'

const require = createRequire(import.meta.url)
const { loadBinding } = require('../js/load.cjs')
const { version } = require('../package.json')

const MAIN = '@zhivex-ai/sandbox-docker'

/** What the generated loader throws: its opinion, and below it what it tried, the last first. */
function thrown(tried) {
  const cause = tried.reduce((previous, message) => new Error(message, { cause: previous }), null)
  return new Error('Cannot find native binding. Try again.', { cause })
}

function refused(error, platform, arch) {
  const load = () => {
    throw error
  }
  try {
    loadBinding(load, { platform, arch })
  } catch (found) {
    assert.ok(found instanceof SandboxError)
    assert.deepEqual([found.code, found.cause], ['UNSUPPORTED', error])
    return found.message
  }
  return assert.fail('it was loaded')
}

test('a binding that loads is the binding', () => {
  const binding = {}
  assert.equal(
    loadBinding(() => binding),
    binding,
  )
})

test('the package is the one of the libc that the loader found', () => {
  for (const name of ['linux-arm64-gnu', 'linux-arm64-musl']) {
    const message = refused(
      thrown([
        `Cannot find module './sandbox-docker.${name}.node'\nRequire stack:\n- /app/binding.cjs`,
        `Cannot find module '${MAIN}-${name}' from '/app/binding.cjs'`,
      ]),
      'linux',
      'arm64',
    )
    assert.ok(
      message.includes(`npm install ${MAIN}-${name}@${version}, or bun add ${MAIN}-${name}@${version}`),
      message,
    )
    const other = name.endsWith('gnu') ? 'arm64-musl' : 'arm64-gnu'
    assert.ok(!message.includes(other), message)
  }
})

test('of packages that the loader tries on macOS, only one exists', () => {
  const message = refused(
    thrown([
      `Cannot find module '${MAIN}-darwin-universal'`,
      "Cannot find module './sandbox-docker.darwin-arm64.node'",
      `Cannot find module '${MAIN}-darwin-arm64'`,
    ]),
    'darwin',
    'arm64',
  )
  assert.ok(message.includes(`it comes with ${MAIN}-darwin-arm64@${version}, `), message)
  assert.ok(!message.includes('universal'), message)
})

test('a loader that does not say what it tried could have needed either libc', () => {
  const message = refused(new Error('Cannot find module "./binding"'), 'linux', 'x64')
  assert.ok(message.includes(`${MAIN}-linux-x64-gnu@${version} or ${MAIN}-linux-x64-musl@${version}`), message)
})

test('what was found and failed comes before what was not found', () => {
  const reason = "/lib/libc.so.6: version `GLIBC_2.17' not found"
  const message = refused(thrown(["Cannot find module './a.node'", reason]), 'linux', 'x64')
  assert.ok(message.includes(`was found but could not be loaded (${reason})`), message)
})

test('platforms without an addon are told which have one', () => {
  for (const [platform, arch] of [
    ['win32', 'x64'],
    ['linux', 'arm'],
    ['linux', 'riscv64'],
    ['freebsd', 'x64'],
  ]) {
    const message = refused(thrown([`Cannot find module '${MAIN}-${platform}-${arch}-msvc'`]), platform, arch)
    assert.ok(message.startsWith(`${MAIN} has no native addon for ${platform}-${arch}; `), message)
    assert.ok(message.includes('linux-x64-gnu, linux-x64-musl, linux-arm64-gnu'), message)
    assert.ok(!message.includes('npm install'), message)
  }
})
