// @ts-check
'use strict'

const { isPlainObject } = require('./arguments.cjs')

/**
 * What the policy looks at, of the inputs of our own tools. Everything else, file contents above all, stays here.
 * @type {Record<string, readonly string[]>}
 */
const POLICY_FIELDS = {
  sandbox_read_file: ['path'],
  sandbox_write_file: ['path'],
  sandbox_list: ['path'],
  sandbox_exec: ['command', 'args', 'cwd'],
}

/** @param {string} reason */
const deny = reason => ({ decision: /** @type {const} */ ('deny'), reason })

/**
 * `authorize` of a session. It answers and does not throw: what it cannot understand is denied.
 * @param {import('./native.cjs').SessionHandle} handle
 * @param {() => boolean} isReleased
 */
function authorizer(handle, isReleased) {
  /** @param {unknown} request */
  return async request => {
    try {
      if (isReleased()) return deny('The session is released; the run must be acquired again before a tool can run.')
      const asked = readRequest(/** @type {any} */ (request))
      if (typeof asked === 'string') return deny(asked)
      const { decision, reason } = JSON.parse(handle.authorize(JSON.stringify(asked)))
      if (decision === 'allow') return { decision: /** @type {const} */ ('allow') }
      return deny(typeof reason === 'string' ? reason : 'The policy of the environment refuses this call.')
    } catch {
      return deny('The request could not be checked, so it is refused.')
    }
  }
}

/**
 * @param {any} request
 * @returns {{ tool: string, phase: string, input: Record<string, unknown> } | string} the reason, where it is refused
 */
function readRequest(request) {
  const tool = request?.tool?.name
  if (typeof tool !== 'string' || tool === '') return 'The request names no tool.'
  const phase = request.phase
  if (phase !== 'preflight' && phase !== 'execute') return 'The request has no phase "preflight" or "execute".'
  const fields = Object.hasOwn(POLICY_FIELDS, tool) ? POLICY_FIELDS[tool] : undefined
  if (!fields) return { tool, phase, input: {} }
  if (!isPlainObject(request.input)) return `The input of ${tool} must be an object.`
  return readInput(tool, phase, fields, request.input)
}

/**
 * @param {string} tool
 * @param {string} phase
 * @param {readonly string[]} fields
 * @param {Record<string, unknown>} given
 */
function readInput(tool, phase, fields, given) {
  /** @type {Record<string, unknown>} */
  const input = {}
  for (const field of fields) {
    const value = given[field]
    if (value === undefined) continue
    const fits = field === 'args' ? Array.isArray(value) && value.every(isText) : isText(value)
    if (!fits) return `"${field}" of ${tool} must be ${field === 'args' ? 'an array of strings' : 'a string'}.`
    input[field] = value
  }
  return { tool, phase, input }
}

/** @param {unknown} value */
const isText = value => typeof value === 'string' && value.isWellFormed()

module.exports = { authorizer }
