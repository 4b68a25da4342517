// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')

const MAIN = '@zhivex-ai/sandbox-docker'

/** The platforms that there is an addon for; each is the end of its package's name. */
const PLATFORMS = Object.freeze([
  'linux-x64-gnu',
  'linux-x64-musl',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
])

/**
 * The native binding. Where it cannot be loaded the error says which package has it: the generated loader only says that an
 * installer may have a fault.
 * @template T
 * @param {() => T} load a function of the entry's own, since a bundler finds what is required by its literal
 * @param {{ platform: string, arch: string }} [host]
 * @returns {T}
 */
function loadBinding(load, host = process) {
  try {
    return load()
  } catch (error) {
    throw new SandboxError('UNSUPPORTED', whyNot(error, host), { cause: error })
  }
}

/**
 * @param {unknown} error the generated loader's, whose causes are what it tried, the last first
 * @param {{ platform: string, arch: string }} host
 */
function whyNot(error, { platform, arch }) {
  // Read where it is told of alone, which is hardly ever.
  const { version } = require('../package.json')
  const words = messagesOf(error)
  const own = PLATFORMS.filter(name => name.split('-', 2).join('-') === `${platform}-${arch}`)
  // On Linux the loader has found out which libc it is; what it tried is in its words.
  const tried = own.filter(name => words.some(text => text.includes(`${MAIN}-${name}`)))
  const names = (tried.length > 0 ? tried : own).map(name => `${MAIN}-${name}`)
  if (names.length === 0) {
    return `${MAIN} has no native addon for ${platform}-${arch}; there are those for ${PLATFORMS.join(', ')}.`
  }
  const packages = names.map(name => `${name}@${version}`)
  const found = words.find(text => !isNotFound(text))
  if (found) {
    return (
      `The native addon of ${MAIN} was found but could not be loaded (${found}). It comes with ${packages.join(' or ')}: if ` +
      'that is damaged or was installed for another machine, remove node_modules and install again.'
    )
  }
  return (
    `The native addon of ${MAIN} is missing: it comes with ${packages.join(' or ')}, an optional dependency. Install on the ` +
    'platform that it is to run on, and not with --omit=optional; or add it by itself: ' +
    packages.map(name => `npm install ${name}, or bun add ${name}`).join('; ')
  )
}

/**
 * What the loader tried, in its order, without its own opinion, unless there is nothing else.
 * @param {unknown} error
 */
function messagesOf(error) {
  const messages = []
  for (let at = /** @type {any} */ (error); at instanceof Error; at = at.cause) messages.push(at.message.trim())
  return messages.length > 1 ? messages.slice(1).toReversed() : messages
}

/**
 * The loader keeps only the words of what it caught: of Node, of Bun, and of a program that Bun made of the package without it.
 * @param {string} message
 */
function isNotFound(message) {
  return /^Cannot (?:find|require) (?:module|package) /.test(message)
}

module.exports = { PLATFORMS, loadBinding }
