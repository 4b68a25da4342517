import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { failure, fakeBinding } from './support/fake-binding.mjs'

const require = createRequire(import.meta.url)
const { createApi } = require('../js/create.cjs')
const { ConflictError, ERROR_CODES, SandboxError } = require('../js/errors.cjs')

const environmentOf = overrides =>
  createApi(fakeBinding(overrides).binding).createDockerSandboxEnvironment({ workspace: { id: 'w' } })

test('the table of codes is the core’s without CONFLICT', () => {
  const { binding } = fakeBinding()
  assert.deepEqual([...ERROR_CODES, 'CONFLICT'], binding.errorCodes())
})

test('every code crosses as a SandboxError with its message', async () => {
  for (const code of ERROR_CODES) {
    const environment = environmentOf({ acquire: () => failure(code, `about ${code}`) })
    await assert.rejects(environment.acquire({ runId: 'r' }), error => {
      assert.ok(error instanceof SandboxError && error instanceof Error)
      assert.deepEqual([error.name, error.code, error.message], ['SandboxError', code, `about ${code}`])
      assert.equal('cause' in error, false)
      assert.match(error.stack, /^SandboxError: about /)
      return true
    })
  }
})

test('a code from the future, a native rejection and a native throw are INTERNAL', async () => {
  const broken = new TypeError('not a string')
  for (const [acquire, message, cause] of [
    [() => failure('NEW_CODE', 'what'), /unknown code NEW_CODE: what/, undefined],
    [() => Promise.reject(broken), /failed unexpectedly: not a string/, broken],
    [
      () => {
        throw broken
      },
      /failed unexpectedly: not a string/,
      broken,
    ],
  ]) {
    await assert.rejects(environmentOf({ acquire }).acquire({ runId: 'r' }), error => {
      assert.equal(error.code, 'INTERNAL')
      assert.match(error.message, message)
      assert.equal(error.cause, cause)
      return true
    })
  }
})

test('the constructor takes code, message and cause as before', () => {
  const cause = new Error('inner')
  const error = new SandboxError('LIMIT', 'too much', { cause })
  assert.deepEqual([error.name, error.code, error.message, error.cause], ['SandboxError', 'LIMIT', 'too much', cause])
  assert.deepEqual(Object.keys(error), ['code'])
})

test('a conflict is a ConflictError and no SandboxError', async () => {
  const environment = environmentOf({ acquire: () => failure('CONFLICT', 'run r is held by process 7') })
  await assert.rejects(environment.acquire({ runId: 'r' }), error => {
    assert.ok(error instanceof ConflictError && !(error instanceof SandboxError))
    assert.deepEqual([error.name, error.message], ['ConflictError', 'run r is held by process 7'])
    return true
  })
})

test('instanceof ConflictError recognises the runtime’s class by name, and nothing else', () => {
  class Foreign extends Error {
    name = 'ConflictError'
  }
  class Special extends ConflictError {}
  assert.ok(new Foreign('x') instanceof ConflictError)
  assert.ok(new ConflictError('x') instanceof ConflictError)
  assert.ok(new Special('x') instanceof ConflictError)
  assert.ok(new Special('x') instanceof Special)
  for (const other of [new Error('x'), null, undefined, 'ConflictError', { name: 'Conflict' }]) {
    assert.equal(other instanceof ConflictError, false)
  }
  assert.equal(new Foreign('x') instanceof Special, false)
  assert.equal(new ConflictError('x') instanceof Special, false)
})

test('a stale platform package is named when the package loads', () => {
  for (const abi of [() => 1, () => 0, undefined]) {
    assert.throws(
      () => createApi({ ...fakeBinding().binding, abi }),
      error => error.code === 'UNSUPPORTED' && /platform package is of another version/.test(error.message),
    )
  }
})

test('what the options refuse is thrown at once, not as a rejection', () => {
  const api = createApi(fakeBinding({ prepareEnvironment: () => failure('CONFIG_INVALID', 'user was root') }).binding)
  assert.throws(() => api.createDockerSandboxEnvironment({ workspace: { id: 'w' } }), {
    code: 'CONFIG_INVALID',
    message: 'user was root',
  })
})
