// Builds the program that is process 1 in a container: static, one file for each architecture.
//
//   node scripts/build-supervisor.mjs [--arch x64,arm64]   without --arch: the one of this machine
//
// A release builds both; one machine is enough. The compiler is the usual one where it has the target's standard library
// (`rustup target add aarch64-unknown-linux-gnu`), with the linker and libc of Debian's gcc-aarch64-linux-gnu and
// libc6-dev-arm64-cross. Elsewhere it is Debian's own: rustc-web and libstd-rust-web-dev:arm64 (Debian 12 has 1.96).
// Without either, the error says what is missing, and `node scripts/setup.mjs --arm64` installs it.
// `build.rs` embeds what is there.

import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ARCHITECTURES, toolchainFor } from './lib/cross.mjs'
import { whyNotStatic } from './lib/elf.mjs'
import { ROOT, run } from './lib/run.mjs'

/** Apart from the crate's other builds: their profiles, flags and locks have nothing to do with this one. */
const TARGET_DIR = join(ROOT, 'target/supervisor')

/** Where `build.rs` looks. */
const EMBED_DIR = join(ROOT, 'target/embed')

/** Measured 1.25 MiB, of which glibc is 0.75. More than this is a dependency that has no business in there. */
const MAX_BYTES = 1.5 * 1024 * 1024

/** Where the program of an architecture is after it was built. */
export const supervisorPath = (arch = process.arch) => join(EMBED_DIR, `supervisor-${arch}`)

/**
 * Builds one; says where it is, how large, and its SHA-256. Throws when it cannot be built, is not a static program for
 * its architecture, or is too large.
 */
export async function buildSupervisor(arch = process.arch) {
  if (!ARCHITECTURES[arch])
    throw new Error(`No supervisor for ${arch}; there are ${Object.keys(ARCHITECTURES).join(', ')}`)
  const { target, machine } = ARCHITECTURES[arch]
  const env = { ...toolchainFor(arch).env, CARGO_TARGET_DIR: TARGET_DIR }
  const what = ['--no-default-features', '--features', 'supervisor', '--bin', 'supervisor']
  const { code } = await run('cargo', ['build', '--locked', '--profile', 'supervisor', '--target', target, ...what], {
    env,
  })
  if (code !== 0) throw new Error(`The supervisor for ${arch} could not be built (exit code ${code})`)
  const built = join(TARGET_DIR, target, 'supervisor/supervisor')
  const bytes = readFileSync(built)
  const reason = whyNotStatic(bytes, machine)
  if (reason) throw new Error(`The supervisor for ${arch} cannot run in a container: ${reason} (${built})`)
  if (bytes.length > MAX_BYTES)
    throw new Error(`The supervisor for ${arch} has ${bytes.length} bytes, more than ${MAX_BYTES}`)
  const path = supervisorPath(arch)
  // One that is the same is left alone: a newer file would have the addon built again.
  if (!existsSync(path) || !readFileSync(path).equals(bytes)) {
    mkdirSync(EMBED_DIR, { recursive: true })
    copyFileSync(built, path)
  }
  return { path, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { arch: { type: 'string', default: process.arch } } })
  for (const arch of values.arch.split(',')) {
    const { path, size, sha256 } = await buildSupervisor(arch)
    console.log(`${path}: ${size} bytes, sha256 ${sha256}`)
  }
}
