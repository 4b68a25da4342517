// @ts-check
'use strict'

/** Longest path in bytes that Linux takes: PATH_MAX without its NUL. */
const MAX_PATH = 4_095
/** Longest single argument in bytes that Linux takes: MAX_ARG_STRLEN without its NUL. */
const MAX_ARGUMENT = 131_071
/** Most arguments of one command; ours, so that a call stays of a size that can be reviewed. */
const MAX_ARGUMENTS = 4_096
/** Most variables of one command; ours, for the same reason. */
const MAX_VARIABLES = 256
/** Longest text in UTF-16 units that one call may carry, the default size of a whole workspace. */
const MAX_TEXT = 64 * 1024 * 1024
/** Deepest path of a workspace, in components. */
const MAX_DEPTH = 64
/** Most entries that one listing returns. */
const MAX_ENTRIES = 10_000
/** Longest timer that the platform has, in milliseconds: 2³¹ − 1. */
const MAX_TIMEOUT = 2_147_483_647

/**
 * The input schemas of the tools. The descriptions are written for the model.
 * @param {import('./zod.cjs').Zod} z
 */
function toolSchemas(z) {
  const path = z.string().min(1).max(MAX_PATH)
  const encoding = z.enum(['utf8', 'base64']).optional()
  const bytes = z.number().int().nonnegative()
  return {
    sandbox_read_file: z.strictObject({
      path: path.describe('File to read, relative to /workspace, for example "src/main.ts".'),
      encoding: encoding.describe('"utf8" (default) for text; "base64" for anything else.'),
      offset: bytes.optional().describe('First byte to read; 0 by default.'),
      limit: bytes.min(1).optional().describe('Most bytes to read. "truncated" in the result says that there is more.'),
    }),
    sandbox_write_file: z.strictObject({
      path: path.describe('File to write, relative to /workspace. Missing parent directories are made.'),
      contents: z.string().max(MAX_TEXT).describe('The whole new contents; what the file held before is replaced.'),
      encoding: encoding.describe('How "contents" is to be understood: "utf8" (default) or "base64".'),
      mode: z
        .number()
        .int()
        .min(0)
        .max(0o777)
        .optional()
        .describe('Permission bits as a decimal number: 420 is rw-r--r--, 493 is rwxr-xr-x.'),
    }),
    sandbox_list: z.strictObject({
      path: path.optional().describe('Directory to list, relative to /workspace; the workspace itself by default.'),
      depth: z
        .number()
        .int()
        .min(1)
        .max(MAX_DEPTH)
        .optional()
        .describe('How many levels to go down; 1 (default) lists the directory itself.'),
      limit: z.number().int().min(1).max(MAX_ENTRIES).optional().describe('Most entries to return; 1000 by default.'),
    }),
    sandbox_exec: z.strictObject({
      command: path.describe(
        'Program to run: a bare name such as "ls", or a path in /bin or /usr/bin. Not a shell line.',
      ),
      args: z
        .array(z.string().max(MAX_ARGUMENT))
        .max(MAX_ARGUMENTS)
        .optional()
        .describe('Its arguments, one string each; nothing is split, expanded or unquoted.'),
      cwd: path.optional().describe('Directory to run it in, relative to /workspace; the workspace itself by default.'),
      env: z
        .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(MAX_ARGUMENT))
        .refine(env => Object.keys(env).length <= MAX_VARIABLES, `at most ${MAX_VARIABLES} variables`)
        .optional()
        .describe('Environment variables for this command.'),
      stdin: z.string().max(MAX_TEXT).optional().describe('Text that the command reads from standard input.'),
      timeoutMs: z
        .number()
        .int()
        .min(1)
        .max(MAX_TIMEOUT)
        .optional()
        .describe('Time limit in milliseconds; the limit of the environment still holds.'),
    }),
  }
}

module.exports = { toolSchemas }
