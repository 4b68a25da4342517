// @ts-check
'use strict'

const { ConflictError, SandboxError, unwrap } = require('./errors.cjs')
const { deepFreeze } = require('./canonical.cjs')
const { readOptions } = require('./arguments.cjs')
const { encodeStrictly } = require('./encode.cjs')
const { createRegistry } = require('./options.cjs')
const { surroundingsOf } = require('./surroundings.cjs')
const { createClient } = require('./docker-client.cjs')
const { environmentMaker } = require('./environment.cjs')
const { storeMakers } = require('./stores.cjs')
const { toolsMaker } = require('./tools.cjs')
const { allowlistProxyQuotaDefaults } = require('./defaults.cjs')

/** The version of the native exports that js/ is written against. */
const ABI = 9

/**
 * The whole public face over a native binding.
 * @param {import('./native.cjs').NativeBinding} binding
 */
function createApi(binding) {
  checkAbi(binding)
  const registry = createRegistry()
  return {
    createDockerSandboxEnvironment: environmentMaker(binding, registry),
    createDockerSandboxTools: toolsMaker(registry),
    /** @param {unknown} [options] */
    createNodeDockerClient(options) {
      const given = readOptions(options, 'createNodeDockerClient', ['socketPath', 'apiVersion'])
      const json = encodeStrictly({ ...given, surroundings: surroundingsOf(binding) }, 'options')
      return createClient(
        binding,
        unwrap(() => binding.dockerConnect(json)),
        registry,
      )
    },
    /** @param {unknown} [options] */
    createMemoryDockerClient(options) {
      const json = encodeStrictly(readOptions(options, 'createMemoryDockerClient', ['fail', 'images']), 'options')
      return createClient(
        binding,
        unwrap(() => binding.memoryDocker(json)),
        registry,
      )
    },
    ...storeMakers(binding, registry),
    dockerSandboxSecurityDefaults: deepFreeze(JSON.parse(unwrap(() => binding.securityDefaultsJson()))),
    allowlistProxyQuotaDefaults,
    SandboxError,
    ConflictError,
  }
}

/**
 * The addon comes in a package of its own for each platform, which can be left behind by an update.
 * @param {Partial<import('./native.cjs').NativeBinding>} binding
 */
function checkAbi(binding) {
  const found = typeof binding.abi === 'function' ? binding.abi() : 'none'
  if (found === ABI) return
  throw new SandboxError(
    'UNSUPPORTED',
    `The native addon has interface ${found} where @zhivex-ai/sandbox-docker needs ${ABI}: the platform package is of ` +
      'another version. Remove node_modules and install again.',
  )
}

module.exports = { createApi }
