// @ts-check
'use strict'

const { settle, unwrap } = require('./errors.cjs')
const { invalid, quote } = require('./describe.cjs')
const { withSignal } = require('./abort.cjs')
const { canonical, deepFreeze } = require('./canonical.cjs')
const { nonEmptyString, read, readOptions, string } = require('./arguments.cjs')
const { readEnvironmentOptions } = require('./options.cjs')
const { surroundingsOf } = require('./surroundings.cjs')
const { createSession } = require('./session.cjs')

/**
 * `createDockerSandboxEnvironment` over a binding. Nothing is created in Docker before the first `acquire`.
 * @param {import('./native.cjs').NativeBinding} binding
 * @param {import('./options.cjs').Registry} registry
 */
function environmentMaker(binding, registry) {
  /** @param {unknown} options */
  return options => {
    const { json, blobs, docker, leases, snapshots, hear, resolver, keptBy } = readEnvironmentOptions(
      binding,
      options,
      registry,
    )
    const surroundings = JSON.stringify(surroundingsOf(binding))
    const handle = unwrap(() =>
      binding.prepareEnvironment(json, blobs, docker, surroundings, leases, snapshots, hear, resolver),
    )
    keptBy(handle)
    if (!inMainThread()) unwrap(() => handle.closeWithWorker())
    const identity = identify(handle)
    const { manifest } = identity
    const close = async () => {
      await settle(handle, () => handle.close())
    }
    return {
      manifest,
      /** @param {unknown} request */
      async acquire(request) {
        const { json, runId, signal } = readAcquireRequest(request)
        const what = `Acquiring run ${quote(runId)}`
        const native = await withSignal(binding, handle, signal, what, token => handle.acquire(json, token))
        keptBy(native)
        try {
          return createSession(binding, native, identity, registry)
        } catch (error) {
          // Nobody would get to know the session, so nobody could release it.
          await settle(native, () => native.release('failed')).catch(() => undefined)
          throw error
        }
      },
      /** @param {unknown} [options] */
      async sweep(options) {
        const { signal } = readOptions(options, 'sweep', ['signal'])
        return JSON.parse(await withSignal(binding, handle, signal, 'The sweep', token => handle.sweep(token)))
      },
      close,
      [Symbol.asyncDispose]: close,
    }
  }
}

/**
 * The manifest, the same object for the environment and all its sessions, and the binding with its fingerprint.
 * @param {import('./native.cjs').EnvironmentHandle} handle
 */
function identify(handle) {
  const manifest = deepFreeze(JSON.parse(unwrap(() => handle.manifestJson())))
  const fingerprint = unwrap(() => handle.seal(canonical(manifest)))
  const binding = Object.freeze({
    environmentId: manifest.id,
    ...(manifest.version === undefined ? {} : { environmentVersion: manifest.version }),
    fingerprint,
    ...(manifest.workspace?.id === undefined ? {} : { workspaceId: manifest.workspace.id }),
  })
  return { manifest, binding }
}

/**
 * Takes what concerns us of the runtime's request; it may carry more, and be an object of any kind.
 * @param {unknown} request
 */
function readAcquireRequest(request) {
  if (typeof request !== 'object' || request === null) {
    throw invalid('The request of acquire', request, 'an object with a runId')
  }
  const runId = nonEmptyString(read(request, 'runId', 'acquire runId'), 'acquire runId')
  const given = read(request, 'scope', 'acquire scope')
  const scope = given === undefined ? undefined : readScope(given)
  const signal = read(request, 'abortSignal', 'acquire abortSignal')
  return { runId, signal, json: JSON.stringify({ runId, scope }) }
}

/** @param {unknown} scope */
function readScope(scope) {
  if (typeof scope !== 'object' || scope === null) throw invalid('acquire scope', scope, 'an object with a tenantId')
  /** @param {string} key */
  const optional = key => {
    const value = read(scope, key, `acquire scope.${key}`)
    return value === undefined ? undefined : string(value, `acquire scope.${key}`)
  }
  const tenantId = nonEmptyString(read(scope, 'tenantId', 'acquire scope.tenantId'), 'acquire scope.tenantId')
  return { tenantId, userId: optional('userId'), namespace: optional('namespace') }
}

/** Node loads the module for 2.6 ms, which is not to be part of loading this package. */
function inMainThread() {
  return require('node:worker_threads').isMainThread
}

module.exports = { environmentMaker }
