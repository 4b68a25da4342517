// Builds the program that is process 1 in a container: static, one file for each architecture.
//
//   node scripts/build-supervisor.mjs [--arch x64,arm64]   without --arch: the one of this machine

import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ROOT, run } from './lib/run.mjs'

/** Architectures of containers: the compiler's target, and the linker where it is not this machine's own. */
export const ARCHITECTURES = {
  x64: { target: 'x86_64-unknown-linux-gnu', linker: 'x86_64-linux-gnu-gcc' },
  arm64: { target: 'aarch64-unknown-linux-gnu', linker: 'aarch64-linux-gnu-gcc' },
}

/** Apart from the crate's other builds: their profiles, flags and locks have nothing to do with this one. */
const TARGET_DIR = join(ROOT, 'target/supervisor')

/** Measured 1.25 MiB, of which glibc is 0.75. More than this is a dependency that has no business in there. */
const MAX_BYTES = 1.5 * 1024 * 1024

/** Where the program of an architecture is after it was built. */
export const supervisorPath = (arch = process.arch) => join(TARGET_DIR, `supervisor-${arch}`)

/** Builds one; says where it is, how large, and its SHA-256. Throws when it cannot be built or is too large. */
export async function buildSupervisor(arch = process.arch) {
  const { target, linker } = ARCHITECTURES[arch] ?? {}
  if (!target) throw new Error(`No supervisor for ${arch}; there are ${Object.keys(ARCHITECTURES).join(', ')}`)
  const name = target.toUpperCase().replaceAll('-', '_')
  const env = {
    CARGO_TARGET_DIR: TARGET_DIR,
    [`CARGO_TARGET_${name}_RUSTFLAGS`]: '-C target-feature=+crt-static',
    ...(arch === process.arch ? {} : { [`CARGO_TARGET_${name}_LINKER`]: linker }),
  }
  const what = ['--no-default-features', '--features', 'supervisor', '--bin', 'supervisor']
  const { code } = await run('cargo', ['build', '--locked', '--profile', 'supervisor', '--target', target, ...what], {
    env,
  })
  if (code !== 0) throw new Error(`The supervisor for ${arch} could not be built (exit code ${code})`)
  mkdirSync(TARGET_DIR, { recursive: true })
  copyFileSync(join(TARGET_DIR, target, 'supervisor/supervisor'), supervisorPath(arch))
  const bytes = readFileSync(supervisorPath(arch))
  if (bytes.length > MAX_BYTES)
    throw new Error(`The supervisor for ${arch} has ${bytes.length} bytes, more than ${MAX_BYTES}`)
  return { path: supervisorPath(arch), size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { arch: { type: 'string', default: process.arch } } })
  for (const arch of values.arch.split(',')) {
    const { path, size, sha256 } = await buildSupervisor(arch)
    console.log(`${path}: ${size} bytes, sha256 ${sha256}`)
  }
}
