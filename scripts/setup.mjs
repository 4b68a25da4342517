// Installs what is missing for building and testing; says nothing and takes no time when nothing is.
//
//   node scripts/setup.mjs [--arm64]   with --arm64: also what compiles for arm64 and emulates such a machine, which on
//                                      Debian adds the architecture to those that dpkg and apt know

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { setTimeout as delay } from 'node:timers/promises'
import { ARM64_PACKAGES } from './lib/cross.mjs'
import { EMULATOR_PACKAGES } from './lib/machine.mjs'
import { fetchRegistry, registryProgram } from './lib/registry.mjs'
import { isStatic } from './lib/rootfs.mjs'
import { ROOT, must, run } from './lib/run.mjs'
import { findOnPath, missingOf } from './lib/tools.mjs'

// A package and how to see that it is not needed: dockerd may well come from elsewhere than from Debian.
const BUILD_PACKAGES = { gcc: () => findOnPath('cc'), 'libc6-dev': () => existsSync('/usr/include/stdio.h') }
const ENGINE_PACKAGES = {
  'docker.io': () => findOnPath('dockerd'),
  iptables: () => findOnPath('iptables'),
  'busybox-static': () => isStaticBusybox(findOnPath('busybox')),
  debootstrap: () => findOnPath('debootstrap'),
  runsc: () => findOnPath('runsc'),
  openssl: () => findOnPath('openssl'),
  'ca-certificates': () => existsSync('/etc/ssl/certs/ca-certificates.crt'),
}
const TRIES = 4

/**
 * Installs the JavaScript packages; for `build` what the compiler needs; for `engine` what a private engine and its images
 * need. Where system packages cannot be installed from here it is an error that names them, unless `optionalEngine` and
 * only the engine needs them: then they stay missing.
 */
export async function setup({ build = true, engine = true, optionalEngine = false } = {}) {
  if (build && !findOnPath('cargo')) throw new Error('Rust is missing: install cargo 1.95 or newer, then start again')
  const missing = process.platform === 'linux' && build ? missingOf(BUILD_PACKAGES) : []
  const missingEngine = process.platform === 'linux' && engine ? missingOf(ENGINE_PACKAGES) : []
  if (!(optionalEngine && whyNoApt())) missing.push(...missingEngine)
  if (missing.length > 0) await installDebian(missing)
  if (engine && !registryProgram() && !whyNoApt()) await fetchRegistry()
  if (!packagesAreInstalled()) await mustShow('npm', ['ci'])
}

/** What an arm64 machine is emulated with, and what compiles for it. Only for who asks: it changes what apt knows. */
export async function setupArm64() {
  const missing = missingOf({ ...ARM64_PACKAGES, ...EMULATOR_PACKAGES })
  const isUnknown = process.arch !== 'arm64' && !(await foreignArchitectures()).includes('arm64')
  if (isUnknown && !whyNoApt()) await mustShow('dpkg', ['--add-architecture', 'arm64'])
  if (missing.length > 0) await installDebian(missing)
  // The kernel of that architecture is only looked up when the machine is made.
  else if (isUnknown && !whyNoApt()) await mustShow('apt-get', ['update'])
}

async function foreignArchitectures() {
  if (!findOnPath('dpkg')) return []
  return (await must('asking dpkg', 'dpkg', ['--print-foreign-architectures'])).trim().split('\n')
}

async function installDebian(names) {
  const reason = whyNoApt()
  if (reason) throw new Error(`${reason}. Install what these Debian packages hold: ${names.join(' ')}`)
  console.log(`Installing ${names.join(' ')}`)
  for (let attempt = 1; ; attempt++) {
    await apt(['update'])
    const { code } = await apt(['install', '--yes', '--no-install-recommends', ...names])
    if (code === 0) return
    if (attempt === TRIES) throw new Error(`apt-get could not install ${names.join(' ')}; its output is above`)
    // Mirrors refuse now and then, and another apt-get may hold the lock.
    await delay(attempt * 5_000)
  }
}

function apt(args) {
  return run('apt-get', args, { env: { DEBIAN_FRONTEND: 'noninteractive' } })
}

function whyNoApt() {
  if (!findOnPath('apt-get')) return 'This is not a Debian-like system'
  return process.getuid() === 0 ? undefined : 'Only root can install packages'
}

// npm writes what it installed into a lock file of its own inside node_modules. Packages for other platforms are absent
// from that one, so only those that must be there are compared.
function packagesAreInstalled() {
  const installed = packagesOf(join(ROOT, 'node_modules/.package-lock.json'))
  const wanted = Object.entries(packagesOf(join(ROOT, 'package-lock.json')))
  return wanted.every(([path, { version, optional, peer }]) => {
    return path === '' || optional || peer || installed[path]?.version === version
  })
}

function packagesOf(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).packages : {}
}

function isStaticBusybox(path) {
  return path !== undefined && isStatic(path)
}

async function mustShow(command, args) {
  const { code } = await run(command, args)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed with exit code ${code}; its output is above`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { arm64: { type: 'boolean', default: false } } })
  await setup()
  if (values.arm64) await setupArm64()
}
