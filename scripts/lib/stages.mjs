// The stages of `npm test`, in order. Each resolves to `{ passed, failed }`, or throws: one failure.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { buildSupervisor } from '../build-supervisor.mjs'
import { build, checkGenerated } from '../build.mjs'
import { startEngine } from '../engine.mjs'
import { IMAGES } from '../images.mjs'
import { setup } from '../setup.mjs'
import { ROOT, run } from './run.mjs'
import { inTemporary } from './temporary.mjs'
import { add, single, totalsOf } from './totals.mjs'

const ONE = { passed: 1, failed: 0 }
const TESTS = '__test__'
// Those of the live tests that choose their transport themselves. Nothing in them depends on the runtime, so that Node is enough.
const CHOOSING = ['bare-image', 'fallback', 'gvisor', 'locate', 'network-world', 'resident', 'starts', 'tls']
// Those with a command of their own, `npm run test:podman`.
const ELSEWHERE = ['podman.test.mjs']
// Those that need the engine.
const LIVE = join(TESTS, 'live')
const SOAK = join(TESTS, 'soak')

// The longest that one test may take under bun, whose own limit is 5 s, and a whole file under Node: one that hangs fails.
const TEST_MS = 60_000
const FILE_MS = 600_000

// `needs` are stages without which this one cannot run; they are run first even when only this one was asked for. Neighbours with a
// `lane` go on side by side, those of one lane one after the other: compilers end in one thread, and tests wait more than they
// work. Each lane of tests has an engine of its own, since they look for leftovers there.
export const STAGES = {
  setup: { run: () => setup().then(() => ONE) },
  // The addon and the Rust tests embed it.
  inside: { needs: ['setup'], run: () => buildSupervisor().then(() => ONE) },
  build: { needs: ['inside'], lane: 0, run: () => build({ profile: 'quick' }).then(() => ONE) },
  style: { needs: ['build'], lane: 0, run: style },
  lint: { needs: ['inside'], lane: 1, run: lint },
  compile: { needs: ['inside'], lane: 1, run: compile },
  engine: { needs: ['setup'], run: engine },
  bun: { needs: ['build', 'engine'], lane: 0, run: bun },
  choosing: { needs: ['build', 'engine'], lane: 0, run: its => inNode(its, testFiles(LIVE).filter(chooses)) },
  node: { needs: ['build', 'engine'], lane: 1, run: node },
  units: { needs: ['build', 'engine'], lane: 2, run: units },
  rust: { needs: ['compile', 'engine'], lane: 2, run: rust },
  soak: { needs: ['build', 'engine'], lane: 2, run: soak },
  types: { needs: ['setup'], lane: 2, run: types },
  pack: { needs: ['build', 'engine'], lane: 2, run: pack },
}
const LANES = 3

function lint(its) {
  return checked(its, [
    ['cargo', 'fmt', '--check'],
    ['cargo', 'clippy', '--all-targets', '--all-features', '--', '-D', 'warnings'],
    // Without the default features there is no Node-API at all: all but the border must build alone.
    ['cargo', 'check', '--lib', '--no-default-features', '--features', 'fuzzing'],
  ])
}

// Behind the build, which writes some of the files.
async function style(its) {
  const checks = await checked(its, [
    [tool('oxlint'), '--deny-warnings'],
    [tool('prettier'), '--check', '.'],
  ])
  const generated = await checkGenerated().then(() => ({ code: 0 }), failure)
  return add([checks, single(generated)])
}

async function checked(its, checks) {
  const results = []
  for (const [command, ...args] of checks) results.push(single(await runIn(its, command, args)))
  return add(results)
}

// What would help the next compilation makes the first one longer.
const CARGO_ENV = { CARGO_INCREMENTAL: process.env.CARGO_INCREMENTAL ?? '0' }

// All features at once: a second set of them would have everything compiled a second time.
const RUST = ['test', '--no-fail-fast', '--all-features']

async function compile(its) {
  return single(await runIn(its, 'cargo', [...RUST, '--no-run']))
}

async function rust(its) {
  return totalsOf('cargo', await runIn(its, 'cargo', RUST))
}

async function engine(its, context) {
  const images = Object.keys(IMAGES)
  // The first makes the images; the others find them made.
  const first = await startEngine({ images })
  const others = Array.from({ length: LANES - 1 }, () => startEngine({ images }))
  const engines = [first, ...(await Promise.all(others))]
  context.env = engines.map(({ socketPath }) => ({ SANDBOX_TEST_SOCKET: socketPath }))
  context.stop = () => Promise.all(engines.map(({ stop }) => stop()))
  return ONE
}

// One file at a time: tests look for leftovers on the engine that they share.
async function bun(its) {
  return await inBun(its, others())
}

async function inBun(its, files) {
  return totalsOf('bun', await runIn(its, tool('bun'), ['test', `--timeout=${TEST_MS}`, ...files]))
}

// Bun runs the session's tests over the resident transport; here they run over the other one.
async function node(its) {
  return inNode({ ...its, env: { ...its.env, SANDBOX_TEST_TRANSPORT: 'exec' } }, others())
}

const others = () => testFiles(LIVE).filter(file => !chooses(file))

function chooses(file) {
  return CHOOSING.some(name => file.endsWith(`/${name}.test.mjs`))
}

async function inNode(its, files) {
  const flags = ['--test', '--test-concurrency=1', `--test-timeout=${FILE_MS}`, '--test-reporter=spec']
  return totalsOf('node', await runIn(its, process.execPath, [...flags, ...files]))
}

async function units(its) {
  const files = testFiles(TESTS)
  return add([await inBun(its, files), await inNode(its, files)])
}

// The proofs of `npm run soak`, at lengths that show that they still work.
async function soak(its) {
  // A folder of their own: they look for leftovers there too. A short path, since sockets lie in it.
  return await inTemporary('soak-', TMPDIR =>
    inNode({ ...its, env: { ...its.env, SANDBOX_SOAK: 'short', TMPDIR } }, testFiles(SOAK)),
  )
}

async function pack(its) {
  return await inNode(its, testFiles(join(TESTS, 'pack')))
}

// Also type-checks js/ and the examples. `skipLibCheck` is off, so this also reads our declarations as a strict user's compiler does, in both resolutions.
async function types(its) {
  const results = []
  for (const config of ['tsconfig.json', 'tsconfig.bundler.json']) {
    results.push(single(await runIn(its, tool('tsc'), ['--project', config])))
  }
  return add(results)
}

/** Runs a program with the stage's environment. What it says is kept where it is not shown. */
async function runIn({ env, show, said }, command, args) {
  const result = await run(command, args, { env: { ...CARGO_ENV, ...env }, show })
  if (!show) said.push(result.output)
  return result
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
