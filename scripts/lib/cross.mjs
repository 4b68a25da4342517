// Compiling static programs for the architectures of containers, this machine's own and others.

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { PATH } from './run.mjs'
import { findOnPath, missingOf } from './tools.mjs'

/** Architectures of containers: the compiler's target, the linker where it is not this machine's own, the ELF machine. */
export const ARCHITECTURES = {
  // The numbers are EM_X86_64 and EM_AARCH64 (elf.h).
  x64: { target: 'x86_64-unknown-linux-gnu', linker: 'x86_64-linux-gnu-gcc', machine: 62 },
  arm64: { target: 'aarch64-unknown-linux-gnu', linker: 'aarch64-linux-gnu-gcc', machine: 183 },
}

/** Debian's own compiler: its package rustc-web is recent, and its standard library comes for other architectures too. */
const DEBIAN_RUSTC = '/usr/bin/rustc'

/** What a Debian machine of another architecture needs to compile for arm64, and how to see that it is not needed. */
export const ARM64_PACKAGES = {
  'rustc-web': () => compilerFor('arm64'),
  'libstd-rust-web-dev:arm64': () => compilerFor('arm64'),
  'gcc-aarch64-linux-gnu': () => isOwn('arm64') || findOnPath(ARCHITECTURES.arm64.linker),
  'libc6-dev-arm64-cross': () => isOwn('arm64') || existsSync('/usr/aarch64-linux-gnu/lib/libc.a'),
}

/** The `rustc` to use for an architecture: the usual one if it has the target's standard library, else Debian's. */
export function compilerFor(arch) {
  return ['rustc', DEBIAN_RUSTC].find(rustc => hasStandardLibrary(rustc, ARCHITECTURES[arch].target))
}

/**
 * The environment in which cargo compiles static programs for an architecture, and the same for `rustc` alone, as
 * `{ env, rustc, flags }`. Throws an error that names what is missing.
 */
export function toolchainFor(arch) {
  const { target, linker } = ARCHITECTURES[arch]
  const { rustc, env } = compilationFor(arch)
  const flags = ['--target', target, '-C', 'target-feature=+crt-static']
  return {
    env: { ...env, [variable(target, 'RUSTFLAGS')]: '-C target-feature=+crt-static' },
    rustc,
    flags: isOwn(arch) ? flags : [...flags, '-C', `linker=${linker}`],
  }
}

/** With which `rustc`, and in which environment, anything is compiled for an architecture; throws as `toolchainFor`. */
export function compilationFor(arch) {
  const { target, linker } = ARCHITECTURES[arch]
  const missing = process.platform === 'linux' && arch === 'arm64' ? missingOf(ARM64_PACKAGES) : []
  const rustc = compilerFor(arch)
  if (missing.length > 0 || !rustc) throw new Error(whatIsMissing(arch, missing))
  return {
    rustc,
    env: {
      ...(isOwn(arch) ? {} : { [variable(target, 'LINKER')]: linker }),
      ...(rustc === 'rustc' ? {} : { RUSTC: rustc }),
    },
  }
}

function variable(target, name) {
  return `CARGO_TARGET_${target.toUpperCase().replaceAll('-', '_')}_${name}`
}

function whatIsMissing(arch, packages) {
  const { target } = ARCHITECTURES[arch]
  const rustup = `With rustup, \`rustup target add ${target}\` brings the standard library.`
  if (packages.length === 0) return `No Rust compiler here has a standard library for ${target}. ${rustup}`
  return (
    `Compiling for ${arch} needs what these Debian packages hold: ${packages.join(' ')}. As root on Debian, ` +
    `\`node scripts/setup.mjs --arm64\` installs them. ${rustup}`
  )
}

function isOwn(arch) {
  return process.platform === 'linux' && process.arch === arch
}

function hasStandardLibrary(rustc, target) {
  const { status, stdout } = spawnSync(rustc, ['--print', 'target-libdir', '--target', target], {
    env: { ...process.env, PATH },
    encoding: 'utf8',
  })
  const folder = status === 0 ? stdout.trim() : ''
  return existsSync(folder) && readdirSync(folder).some(name => /^libstd-.*\.rlib$/.test(name))
}
