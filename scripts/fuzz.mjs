// `npm run fuzz`: the fuzzers of `fuzz/`, one after the other, each from the corpus that is kept there. docs/testing.md
// says what they hold against what.
//
//   node scripts/fuzz.mjs [--only wire,host] [--seconds 600] [--keep] [--walk]
//
// --seconds  how long each runs
// --keep     writes the smallest set of inputs that reaches all that was reached back to `fuzz/corpus`
// --walk     as on a kernel without openat2, where the supervisor walks over paths itself
//
// It ends with a table, and with 1 if anything was found: the input is then in `fuzz/artifacts`.

import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ROOT, run } from './lib/run.mjs'
import { findOnPath } from './lib/tools.mjs'
import { setup } from './setup.mjs'

const TARGETS = ['wire', 'archive', 'proxy', 'inside', 'host']
/** What builds the fuzzers and reduces their inputs (crates.io). */
const CARGO_FUZZ = '0.13.2'
const TOOLS = join(ROOT, 'fuzz/target/tools')
/** Inputs that were found are kept between runs here; the repository has a small set of them. */
const WORK = join(ROOT, 'fuzz/target/corpus')
const KEPT = join(ROOT, 'fuzz/corpus')
// The compiler's sanitizers are for nightly ones; coverage is not.
const FLAGS = ['--sanitizer', 'none']
/** Longest input in bytes, longest time of one input in seconds, most memory in MiB. */
const LIMITS = ['-max_len=8192', '-timeout=30', '-rss_limit_mb=2048']
/** Longer inputs are tried from early on: most say what happens in a row of steps. */
const GROWTH = '-len_control=10'
/** Files of the supervisor's target are many and short-lived. */
const SHM = '/dev/shm'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    seconds: { type: 'string', default: '600' },
    keep: { type: 'boolean', default: false },
    walk: { type: 'boolean', default: false },
  },
})
const wanted = values.only ? values.only.split(',') : TARGETS
const unknown = wanted.filter(name => !TARGETS.includes(name))
const seconds = Number(values.seconds)
if (unknown.length > 0 || !Number.isInteger(seconds) || seconds < 1) {
  console.error(
    unknown.length > 0
      ? `No target ${unknown.join(', ')}; there are ${TARGETS.join(', ')}`
      : '--seconds is a whole number',
  )
  process.exit(2)
}
if (process.platform !== 'linux') {
  console.error('The fuzzers run on Linux: one of them is the program that is process 1 there.')
  process.exit(2)
}
if (!findOnPath('c++')) {
  console.error('A C++ compiler is missing, which libFuzzer is built with: install g++, then start again')
  process.exit(2)
}

const env = {
  PATH: `${join(TOOLS, 'bin')}:${process.env.PATH}`,
  ...(existsSync(SHM) && { TMPDIR: SHM }),
  ...(values.walk && { SANDBOX_FUZZ_OPENAT2: 'no' }),
}
await setup({ engine: false })
await installCargoFuzz()
const rows = []
for (const target of wanted) rows.push(await fuzz(target))
report(rows)

async function installCargoFuzz() {
  const { output } = await run('cargo', ['fuzz', '--version'], { env, show: false })
  if (output.includes(`cargo-fuzz ${CARGO_FUZZ}`)) return
  const install = ['install', 'cargo-fuzz', '--version', CARGO_FUZZ, '--locked', '--root', TOOLS]
  const { code } = await run('cargo', install)
  if (code !== 0) throw new Error(`cargo ${install.join(' ')} failed; its output is above`)
}

async function fuzz(target) {
  console.log(`\n=== ${target}: ${seconds} s`)
  const work = join(WORK, target)
  mkdirSync(work, { recursive: true })
  const limits = [`-max_total_time=${seconds}`, '-print_final_stats=1', GROWTH, ...LIMITS]
  const { code, output } = await cargoFuzz(['run', ...FLAGS, target, work, join(KEPT, target), '--', ...limits])
  if (code === 0 && values.keep) await keep(target)
  const number = pattern => Number([...output.matchAll(pattern)].at(-1)?.[1] ?? Number.NaN)
  return {
    target,
    executions: number(/stat::number_of_executed_units: +(\d+)/g),
    'per second': number(/stat::average_exec_per_sec: +(\d+)/g),
    edges: number(/ cov: (\d+) /g),
    features: number(/ ft: (\d+) /g),
    inputs: readdirSync(join(KEPT, target)).length,
    KiB: Math.ceil(bytesIn(join(KEPT, target)) / 1024),
    found: code === 0 ? 'nothing' : lastFound(output),
  }
}

async function keep(target) {
  const [work, kept] = [join(WORK, target), join(KEPT, target)]
  cpSync(kept, work, { recursive: true })
  const { code } = await cargoFuzz(['cmin', ...FLAGS, target, work, '--', ...LIMITS, '-set_cover_merge=1'])
  if (code !== 0) throw new Error(`The corpus of ${target} could not be reduced; the output is above`)
  rmSync(kept, { recursive: true })
  cpSync(work, kept, { recursive: true })
}

function cargoFuzz(args) {
  return run('cargo', ['fuzz', ...args], { env })
}

function bytesIn(folder) {
  return readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}

function lastFound(output) {
  return /Test unit written to (\S+)/.exec(output)?.[1] ?? 'something; its output is above'
}

function report(rows) {
  console.table(rows)
  const found = rows.filter(({ found }) => found !== 'nothing')
  for (const { target, found: path } of found) {
    console.log(`${target}: make the input small with \`cargo fuzz tmin ${FLAGS.join(' ')} ${target} ${path}\`,`)
    console.log(`mend what it shows, and keep it in fuzz/regressions/${target}.`)
  }
  process.exitCode = found.length > 0 ? 1 : 0
}
