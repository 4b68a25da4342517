// The stages of `npm test`, in order. Each resolves to `{ passed, failed }`, or throws: one failure.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { build, checkGenerated } from '../build.mjs'
import { startEngine } from '../engine.mjs'
import { IMAGES } from '../images.mjs'
import { setup } from '../setup.mjs'
import { ROOT, run } from './run.mjs'
import { inTemporary } from './temporary.mjs'
import { add, single, totalsOf } from './totals.mjs'

const ONE = { passed: 1, failed: 0 }
// Without the default features there is no Node-API at all: the core must build alone. With `supervisor` there is the
// program in the container, with `fuzzing` what the fuzzers' corpus is repeated with.
const CORE = ['--no-default-features', '--features', 'fuzzing']
const TESTS = '__test__'
const CHOOSING = ['bare-image', 'fallback', 'gvisor', 'locate', 'resident']
// Those with a command of their own, `npm run test:podman`.
const ELSEWHERE = ['podman.test.mjs']
// Those that need the engine.
const LIVE = join(TESTS, 'live')
const SOAK = join(TESTS, 'soak')

// The longest that one test may take under bun, whose own limit is 5 s, and a whole file under Node: one that hangs fails.
const TEST_MS = 60_000
const FILE_MS = 600_000

// `needs` are stages without which this one cannot run; they are run first even when only this one was asked for.
export const STAGES = {
  setup: { run: () => setup().then(() => ONE) },
  build: { needs: ['setup'], run: () => build({ profile: 'quick' }).then(() => ONE) },
  lint: { needs: ['build'], run: lint },
  engine: { needs: ['setup'], run: engine },
  rust: { needs: ['build', 'engine'], run: rust },
  bun: { needs: ['build', 'engine'], run: bun },
  node: { needs: ['build', 'engine'], run: node },
  soak: { needs: ['build', 'engine'], run: soak },
  types: { needs: ['setup'], run: types },
  pack: { needs: ['build', 'engine'], run: pack },
}

async function lint() {
  const checks = [
    ['cargo', 'fmt', '--check'],
    ['cargo', 'clippy', '--all-targets', ...CORE, '--', '-D', 'warnings'],
    // The border is in the library alone.
    ['cargo', 'clippy', '--lib', '--all-features', '--', '-D', 'warnings'],
    [tool('oxlint'), '--deny-warnings'],
    [tool('prettier'), '--check', '.'],
  ]
  const results = []
  for (const [command, ...args] of checks) results.push(single(await run(command, args)))
  const generated = await checkGenerated().then(() => ({ code: 0 }), failure)
  return add([...results, single(generated)])
}

// All features at once: a second set of them would have everything compiled a second time.
async function rust({ env }) {
  return totalsOf('cargo', await run('cargo', ['test', '--no-fail-fast', '--all-features'], { env }))
}

// Two of them: the tests under bun and those under Node run side by side, and each look for leftovers on their engine.
async function engine(context) {
  const images = Object.keys(IMAGES)
  const engines = [await startEngine({ images }), await startEngine({ images })]
  const [first, second] = engines.map(({ socketPath }) => ({ SANDBOX_TEST_SOCKET: socketPath }))
  Object.assign(context, { env: first, second, stop: () => Promise.all(engines.map(({ stop }) => stop())) })
  return ONE
}

// One file at a time: tests look for leftovers on the engine that they share. They wait more than they work, so those
// under Node go on meanwhile, and are shown when these have ended.
async function bun(context) {
  if (context.wanted.includes('node')) context.node = runAllInNode({ env: context.second, show: false })
  const files = [...testFiles(TESTS), ...testFiles(LIVE)]
  return totalsOf('bun', await run(tool('bun'), ['test', `--timeout=${TEST_MS}`, ...files], { env: context.env }))
}

async function node(context) {
  if (!context.node) return add((await runAllInNode({ env: context.second })).map(result => totalsOf('node', result)))
  const results = await context.node
  for (const { output } of results) process.stdout.write(output)
  return add(results.map(result => totalsOf('node', result)))
}

// Bun runs the session's tests over the resident transport; here they run over the other one. Files that choose their
// transport themselves are not told.
async function runAllInNode({ env, show }) {
  const chooses = file => CHOOSING.some(name => file.endsWith(`/${name}.test.mjs`))
  const live = testFiles(LIVE)
  const first = await runNode([...testFiles(TESTS), ...live.filter(chooses)], env, show)
  const rest = live.filter(file => !chooses(file))
  return [first, await runNode(rest, { ...env, SANDBOX_TEST_TRANSPORT: 'exec' }, show)]
}

// The proofs of `npm run soak`, at lengths that show that they still work.
async function soak({ env }) {
  // A folder of their own: they look for leftovers there too. A short path, since sockets lie in it.
  return await inTemporary('soak-', async TMPDIR =>
    totalsOf('node', await runNode(testFiles(SOAK), { ...env, SANDBOX_SOAK: 'short', TMPDIR })),
  )
}

async function pack({ env }) {
  return totalsOf('node', await runNode(testFiles(join(TESTS, 'pack')), env))
}

// Also type-checks js/ and the examples. `skipLibCheck` is off, so this also reads our declarations as a strict user's compiler does, in both resolutions.
async function types() {
  const results = []
  for (const config of ['tsconfig.json', 'tsconfig.bundler.json']) {
    results.push(single(await run(tool('tsc'), ['--project', config])))
  }
  return add(results)
}

function runNode(files, env, show) {
  const flags = ['--test', '--test-concurrency=1', `--test-timeout=${FILE_MS}`, '--test-reporter=spec']
  return run(process.execPath, [...flags, ...files], { env, show })
}

function testFiles(folder) {
  const isTest = name => /\.test\.[cm]?js$/.test(name) && !ELSEWHERE.includes(name)
  const files = readdirSync(join(ROOT, folder)).filter(isTest)
  if (files.length === 0) throw new Error(`There is no test file in ${folder}`)
  // With ./ in front bun takes it for a path; without, for a pattern.
  return files.toSorted().map(name => `./${folder}/${name}`)
}

function tool(name) {
  return join(ROOT, 'node_modules/.bin', name)
}

function failure(error) {
  console.error(error.message)
  return { code: 1 }
}
