// A user's project in an empty folder: installs the packed packages, and runs and compiles code there.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../scripts/lib/run.mjs'

const TIMEOUT_MS = 120_000
const DEFAULT_SOCKET = '/var/run/docker.sock'

// Shows the engine of the tests where the README's example looks for one, to this command alone: a mount namespace of
// its own in which /run holds just that socket.
const WITH_ENGINE = 'mount -t tmpfs none /run && ln -s "$SANDBOX_TEST_SOCKET" /run/docker.sock && exec "$0" "$@"'

/**
 * Makes the project and installs the packed packages in it with `npm` or `bun`; zod comes from the registry. `cache` is a folder
 * for what the installer keeps, in place of its usual one.
 */
export function makeProject(installer, packed, cache) {
  const folder = mkdtempSync(join(tmpdir(), `sandbox-docker-${installer}-`))
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const dependencies = { [manifest.name]: `file:${packed.main}`, zod: manifest.devDependencies.zod }
  // A user's installer finds the platform package in the registry, by the main package's optionalDependencies.
  const overrides = {}
  for (const path of packed.platforms) {
    const name = JSON.parse(run('tar', ['-xzOf', path, 'package/package.json'], folder)).name
    overrides[name] = `file:${path}`
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies, overrides }))
  const env = cache && { npm_config_cache: cache, BUN_INSTALL_CACHE_DIR: cache }
  if (installer === 'npm') run('npm', ['install', '--no-audit', '--no-fund'], folder, env)
  else run(tool('bun'), ['install'], folder, env)
  return folder
}

/** Runs a program in `folder` and returns its standard output; anything but exit code 0 is an error. */
export function run(command, args, folder, env = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: folder,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
  })
  if (error) throw error
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}\n${stderr}`)
  return stdout
}

/** As `run`, with the engine of the tests at the default socket. */
export function runWithEngine(command, args, folder) {
  if (process.env.SANDBOX_TEST_SOCKET === DEFAULT_SOCKET) return run(command, args, folder)
  return run('unshare', ['--mount', 'sh', '-c', WITH_ENGINE, command, ...args], folder)
}

/** A program from this repository's own development dependencies. */
export function tool(name) {
  return join(ROOT, 'node_modules/.bin', name)
}

/**
 * README's first `ts` block and the `text` block that follows it, its output. It is read from README itself, since that
 * is what people copy: a copy of it in a file could differ.
 */
export function readmeExample() {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const found = /^```ts\n(?<code>.*?)^```$.*?^```text\n(?<output>.*?)^```$/ms.exec(readme)
  if (!found) throw new Error('README.md has no ```ts block that is followed by a ```text block with its output')
  return found.groups
}

/** The same code as a CommonJS module: imports become `require`, and top-level `await` gets a function around it. */
export function asCommonJs(code) {
  const form = /^import (\{[^}]*\}) from ('[^']+'|"[^"]+");?$/gm
  const body = code.replace(form, (_, names, from) => `const ${names.replaceAll(' as ', ': ')} = require(${from})`)
  if (/^import /m.test(body)) throw new Error('The example has an import that is not of the form `import { … } from`')
  return `(async () => {\n${body}\n})().catch(error => { console.error(error); process.exitCode = 1 })\n`
}

/** The usage that the README of 0.2.1 shows, to the letter, with the model that it leaves to the reader, and a run of its agent. */
export function earlierUsage() {
  const before = `globalThis.model = ({ step }) => [
    { calls: [{ name: 'sandbox_list', input: {} }, { name: 'sandbox_read_file', input: { path: 'README.md' } }] },
    { calls: [{ name: 'sandbox_exec', input: { command: 'echo', args: ['it', 'works'] } }] },
  ][step] ?? { text: 'done' }\n`
  const after = `
const waiting = await agent.run({ runId: 'usage' })
const done = await agent.resume(waiting, { approve: 'all' })
const [list, read, exec] = done.messages.flatMap(message => message.results ?? []).map(({ value }) => value)
const names = list.entries.map(entry => entry.path)
console.log(waiting.status, done.status, JSON.stringify([names, read.contents, exec.exitCode, exec.stdout]))\n`
  return before + readFileSync(new URL('usage-0.2.1.txt', import.meta.url), 'utf8') + after
}

/** Bytes of a .tgz, and of what is in it. */
export function sizesOf(path) {
  const files = run('tar', ['-tzvf', path], ROOT).trim().split('\n')
  const unpacked = files.reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2]), 0)
  return { packed: statSync(path).size, unpacked, files: files.length }
}
