// @ts-check
'use strict'

const { existsSync, readFileSync, realpathSync } = require('node:fs')
const { dirname, join } = require('node:path')
const { pathToFileURL } = require('node:url')

const RUNTIME = '@zhivex-ai/core'

/** @typedef {new (message: string) => Error} ErrorClass */

/** @type {Promise<ErrorClass | undefined> | undefined} */
let loading

/**
 * The agent runtime's `ConflictError`, which its users catch with `instanceof`; `undefined` where the application has
 * no runtime. Looked for when the first conflict is thrown, once.
 * @returns {Promise<ErrorClass | undefined>}
 */
function runtimeConflictError() {
  loading ??= load()
  return loading
}

async function load() {
  for (const attempt of [fromHere, fromApplication]) {
    try {
      const found = (await attempt())?.ConflictError
      if (typeof found === 'function' && found.prototype instanceof Error) return found
    } catch {
      // Not installed there, or it does not load: the next place, then our own class.
    }
  }
  return undefined
}

// A literal, so that a bundler which puts the runtime into the application's bundle hands us that copy of the class.
// The `catch` tells bundlers that its absence is no error.
const fromHere = () => import('@zhivex-ai/core').catch(() => undefined)

/** With a linked copy of this package, or with strict package managers, only the application can resolve the runtime. */
async function fromApplication() {
  const starts = [process.argv[1] && dirname(realpathSync(process.argv[1])), process.cwd()]
  for (const start of starts) {
    const entry = start && findEntry(start)
    if (entry) return import(/* webpackIgnore: true */ pathToFileURL(entry).href)
  }
  return undefined
}

/**
 * The file that `import '@zhivex-ai/core'` in `start` would load. `require.resolve` cannot tell: the package is an ES
 * module only and exports nothing to it.
 * @param {string} start
 * @returns {string | undefined}
 */
function findEntry(start) {
  for (let directory = start; ; directory = dirname(directory)) {
    const root = join(directory, 'node_modules', RUNTIME)
    if (existsSync(join(root, 'package.json'))) {
      const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
      const target = pickTarget(manifest.exports?.['.'] ?? manifest.exports) ?? manifest.main ?? 'index.js'
      return realpathSync(join(root, target))
    }
    if (directory === dirname(directory)) return undefined
  }
}

const CONDITIONS = new Set(['node', 'import', 'default', ...(process.versions.bun ? ['bun'] : [])])

/**
 * @param {unknown} target one target of an `exports` map
 * @returns {string | undefined}
 */
function pickTarget(target) {
  if (typeof target === 'string') return target
  if (typeof target !== 'object' || target === null) return undefined
  for (const [condition, inner] of Object.entries(target)) {
    const found = Array.isArray(target) || CONDITIONS.has(condition) ? pickTarget(inner) : undefined
    if (found) return found
  }
  return undefined
}

module.exports = { runtimeConflictError }
