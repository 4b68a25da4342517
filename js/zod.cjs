// @ts-check
'use strict'

const { createRequire } = require('node:module')
const { join } = require('node:path')

const { SandboxError } = require('./errors.cjs')

/** @typedef {typeof import('zod')} Zod */

/**
 * The application's zod, a peer dependency. Loaded when the tools are made, so that an application without them needs
 * none. A linked copy of this package has no zod beside it; then the one of the working directory serves.
 * @returns {Zod}
 */
function loadZod() {
  try {
    // A literal, for bundlers.
    return check(require('zod'))
  } catch (error) {
    if (error instanceof SandboxError) throw error
    return loadFromApplication(error)
  }
}

/**
 * @param {unknown} cause why it is not beside us
 * @returns {Zod}
 */
function loadFromApplication(cause) {
  let found
  try {
    found = createRequire(join(process.cwd(), 'index.js'))('zod')
  } catch {
    throw new SandboxError('UNSUPPORTED', 'The sandbox tools need zod 4, which is not installed: add "zod".', { cause })
  }
  return check(found)
}

/**
 * @param {any} zod
 * @returns {Zod}
 */
function check(zod) {
  // Zod 3 has neither; its schemas would fail later, in the provider, with nothing that leads back here.
  if (typeof zod?.strictObject === 'function' && typeof zod.toJSONSchema === 'function') return zod
  throw new SandboxError('UNSUPPORTED', 'The sandbox tools need zod 4; the installed zod is older. Update "zod".')
}

module.exports = { loadZod }
