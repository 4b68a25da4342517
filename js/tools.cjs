// @ts-check
'use strict'

const { SandboxError } = require('./errors.cjs')
const { read, readOptions } = require('./arguments.cjs')
const { toolSchemas } = require('./tool-schemas.cjs')
const { loadZod } = require('./zod.cjs')

/** Changes when an approval given for an older definition of these tools must not count for the new one. */
const APPROVAL_VERSION = '1'

/** Definitions of a tool that changes something: the user is asked before each call. */
const APPROVAL = /** @type {const} */ ({
  requiresApproval: true,
  approvalMode: 'interrupt',
  approvalVersion: APPROVAL_VERSION,
})

/**
 * @param {string[]} permissions
 * @param {string} riskLevel
 */
const metadata = (permissions, riskLevel) => ({ advancedRegistry: { permissions, audit: { riskLevel } } })

/**
 * `createDockerSandboxTools` over the sessions that we gave out.
 * @param {import('./options.cjs').Registry} registry
 */
function toolsMaker(registry) {
  /** @param {unknown} [options] */
  return options => {
    readOptions(options, 'createDockerSandboxTools', [])
    const schemas = toolSchemas(loadZod())
    /** @param {string} tool */
    const inSession = tool => (/** @type {any} */ context) => findSession(registry, tool, context)
    return {
      sandbox_read_file: readFileTool(schemas, inSession('sandbox_read_file')),
      sandbox_write_file: writeFileTool(schemas, inSession('sandbox_write_file')),
      sandbox_list: listTool(schemas, inSession('sandbox_list')),
      sandbox_exec: execTool(schemas, inSession('sandbox_exec')),
    }
  }
}

/**
 * @typedef {ReturnType<typeof toolSchemas>} Schemas
 * @typedef {(context: any) => import('./session.cjs').Operations} FindSession
 */

/**
 * @param {import('./options.cjs').Registry} registry
 * @param {string} tool
 * @param {any} context the runtime's
 */
function findSession(registry, tool, context) {
  const session = member(context, 'executionEnvironment', tool)
  const found = typeof session === 'object' && session !== null ? registry.sessions.get(session) : undefined
  if (found) return found
  const why = session === undefined ? 'without an execution environment' : 'in an execution environment of another kind'
  throw new SandboxError(
    'CONFIG_INVALID',
    `${tool} was called ${why}; give the agent createDockerSandboxEnvironment() as executionEnvironment.`,
  )
}

/**
 * @param {unknown} context the runtime's
 * @param {string} key
 * @param {string} tool
 * @returns {any}
 */
function member(context, key, tool) {
  return context === undefined || context === null
    ? undefined
    : read(Object(context), key, `${key} of ${tool}'s context`)
}

/** @param {unknown} context */
const signalOf = context => member(context, 'abortSignal', 'the tool')

/**
 * @param {Schemas} schemas
 * @param {FindSession} find
 */
function readFileTool(schemas, find) {
  return {
    name: 'sandbox_read_file',
    description: 'Read a file of the workspace, or a part of it.',
    schema: schemas.sandbox_read_file,
    metadata: metadata(['read', 'filesystem'], 'low'),
    requiresApproval: false,
    /**
     * @param {{ path: string, encoding?: string, offset?: number, limit?: number }} input
     * @param {any} context
     */
    async execute({ path, encoding = 'utf8', offset, limit }, context) {
      return await find(context).read(path, encoding, { offset, limit, signal: signalOf(context) })
    },
  }
}

/**
 * @param {Schemas} schemas
 * @param {FindSession} find
 */
function writeFileTool(schemas, find) {
  return {
    name: 'sandbox_write_file',
    description: 'Write a file of the workspace, replacing it if it is there.',
    schema: schemas.sandbox_write_file,
    metadata: metadata(['write', 'filesystem'], 'medium'),
    ...APPROVAL,
    /**
     * @param {{ path: string, contents: string, encoding?: string, mode?: number }} input
     * @param {any} context
     */
    async execute({ path, contents, encoding = 'utf8', mode }, context) {
      return await find(context).writeText(path, contents, encoding, { mode, signal: signalOf(context) })
    },
  }
}

/**
 * @param {Schemas} schemas
 * @param {FindSession} find
 */
function listTool(schemas, find) {
  return {
    name: 'sandbox_list',
    description: 'List files and directories of the workspace, sorted by path.',
    schema: schemas.sandbox_list,
    metadata: metadata(['read', 'filesystem'], 'low'),
    requiresApproval: false,
    /**
     * @param {{ path?: string, depth?: number, limit?: number }} input
     * @param {any} context
     */
    async execute({ path = '.', depth, limit }, context) {
      return await find(context).list(path, { depth, limit, signal: signalOf(context) })
    },
  }
}

/**
 * @param {Schemas} schemas
 * @param {FindSession} find
 */
function execTool(schemas, find) {
  return {
    name: 'sandbox_exec',
    description:
      'Run a program in the workspace, without a shell, and return its output. A non-zero exit code is a result, no error.',
    schema: schemas.sandbox_exec,
    metadata: metadata(['read', 'write', 'filesystem', 'code-execution', 'shell'], 'high'),
    ...APPROVAL,
    /**
     * @param {Record<string, unknown>} input
     * @param {any} context
     */
    async execute(input, context) {
      return await find(context).exec({ ...input, signal: signalOf(context) })
    },
  }
}

module.exports = { toolsMaker }
