// `npm run test:arm64`: process 1 and the addon for arm64, emulated, ending with one line `N passed, N failed`.
//
//   node scripts/test-arm64.mjs   needs Debian's packages of `node scripts/setup.mjs --arm64`; names those that are missing
//
// First the unit tests of `supervisor` under QEMU's user mode. That refuses seccomp filters, so process 1 itself runs on
// a whole emulated machine: a kernel of Debian's, and in place of an engine `tests/support/guest`, which makes containers.
// The tests are those of the engine; they reach it by `SANDBOX_TEST_MACHINE`. The addon is loaded by Bun for arm64, under the
// user mode again, and has those tests that need no engine.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from './build.mjs'
import { buildSupervisor } from './build-supervisor.mjs'
import { BUN_ARM64, fetchBunArm64 } from './lib/bun-arm64.mjs'
import { ARCHITECTURES, toolchainFor } from './lib/cross.mjs'
import { EMULATOR_PACKAGES, startMachine } from './lib/machine.mjs'
import { portableTests } from './lib/portable.mjs'
import { ROOT, must, run } from './lib/run.mjs'
import { missingOf } from './lib/tools.mjs'
import { add, totalsOf } from './lib/totals.mjs'

const FEATURES = ['--no-default-features', '--features', 'host,supervisor']
const TARGET_DIR = join(ROOT, 'target/supervisor')
/**
 * Those that need process 1 and nothing else of an engine. `supervisor_bridge`, `supervisor_bounds` and
 * `supervisor_tracers` have the engine start processes (`docker exec`), `supervisor_link` speaks the Engine API.
 */
const TESTS = ['supervisor_inside', 'supervisor_attacks', 'supervisor_takeover']
/** The longest that a test of the addon may take: its code is compiled once more as it goes. */
const TEST_MS = 300_000
/** Emulated, a test takes up to two minutes. All together take three to eight; past this something hangs. */
const ALL_MS = 30 * 60_000

const deadline = setTimeout(() => {
  console.error(`The tests took longer than ${ALL_MS / 60_000} minutes`)
  console.log('\n0 passed, 1 failed')
  process.exit(1)
}, ALL_MS)
const result = await test().catch(error => {
  console.error(error.message)
  return { passed: 0, failed: 1 }
})
clearTimeout(deadline)
console.log(`\n${result.passed} passed, ${result.failed} failed`)
process.exitCode = result.failed > 0 ? 1 : 0

async function test() {
  const missing = missingOf(EMULATOR_PACKAGES)
  if (missing.length > 0) throw new Error(`Missing: ${missing.join(' ')}; \`node scripts/setup.mjs --arm64\``)
  const toolchain = toolchainFor('arm64')
  const unit = await unitTests(toolchain)
  const { path: supervisor } = await buildSupervisor('arm64')
  const addon = await addonTests()
  const init = await compile(toolchain, 'tests/support/guest/main.rs', 'machine-init')
  const attack = await compile(toolchain, 'tests/support/attack.rs', 'attack')
  const machine = await startMachine({ init, supervisor, attack })
  try {
    return add([unit, addon, await machineTests(machine.address, supervisor, attack)])
  } finally {
    await machine.stop()
  }
}

async function unitTests({ env }) {
  const { target } = ARCHITECTURES.arm64
  const runner = `CARGO_TARGET_${target.toUpperCase().replaceAll('-', '_')}_RUNNER`
  const args = ['test', '--locked', '--target', target, ...FEATURES, '--lib', 'supervisor::']
  const own = { ...env, [runner]: 'qemu-aarch64-static', CARGO_TARGET_DIR: TARGET_DIR }
  return totalsOf('cargo', await run('cargo', args, { env: own }))
}

async function addonTests() {
  const addon = await build({ profile: 'quick', target: ARCHITECTURES.arm64.target })
  try {
    await fetchBunArm64()
    const [command, ...args] = [...BUN_ARM64, 'test', `--timeout=${TEST_MS}`, ...portableTests()]
    return totalsOf('bun', await run(command, args))
  } finally {
    // Left there it would be taken for one to publish.
    rmSync(addon)
  }
}

async function compile({ rustc, flags }, source, name) {
  const to = join(TARGET_DIR, name)
  await must(`compiling ${source}`, rustc, [
    '--edition',
    '2024',
    '-O',
    '-C',
    'strip=symbols',
    ...flags,
    '-o',
    to,
    source,
  ])
  return to
}

async function machineTests(address, supervisor, attack) {
  const env = { SANDBOX_TEST_MACHINE: address, SANDBOX_SUPERVISOR: supervisor, SANDBOX_ATTACK: attack }
  const which = TESTS.flatMap(name => ['--test', name])
  const args = ['test', '--locked', '--no-fail-fast', ...FEATURES, ...which, '--', '--test-threads=2']
  return totalsOf('cargo', await run('cargo', args, { env }))
}
