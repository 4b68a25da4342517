// @ts-check
'use strict'

const { invalid } = require('./describe.cjs')
const { RESULT, answer, argumentsOf, dispatcher, theirs } = require('./own-calls.cjs')

/** Most addresses that are passed on; a name with more is refused in any case. */
const MOST = 1024

/** @type {import('./own-calls.cjs').Side} */
const RESOLVER = {
  option: 'resolveHost',
  what: 'function',
  codeOf: () => 'CONFIG_INVALID',
  nameOf: () => 'resolveHost()',
}

/** @type {import('./own-calls.cjs').Methods} */
const METHODS = {
  async resolveHost(resolve, call) {
    const [host] = argumentsOf(call)
    const addresses = await theirs(() => resolve(host))
    if (!Array.isArray(addresses) || !addresses.slice(0, MOST).every(address => typeof address === 'string')) {
      throw invalid(RESULT, addresses, 'an array of IP addresses as strings')
    }
    answer(call, addresses.slice(0, MOST))
  },
}

/**
 * What the native part calls a resolver of the application's own through.
 * @param {WeakRef<(host: string) => unknown>} resolver
 */
const resolverDispatch = resolver => dispatcher(RESOLVER, resolver, METHODS)

module.exports = { resolverDispatch }
