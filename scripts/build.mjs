// Builds the addon with its generated loader and types.
//
//   node scripts/build.mjs [--profile dev|quick] [--check] [--target TRIPLE] [--cross napi|zig] [--embedded]
//
// Without --profile it is the release. --check fails when the generated files differ from the committed ones. --target is
// another platform than this one's; --cross napi links against the glibc of 2012 (2.17) and --cross zig against musl, for
// which napi's command line fetches or finds the tools. --embedded takes the supervisors that are in target/embed already:
// containers run on engines of both architectures, whatever the host is.
//
// It ends with the addon's size, which has a bound for a release, and, with --cross napi, the glibc that it needs, which has one too.

import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildSupervisor, supervisorPath } from './build-supervisor.mjs'
import { ARCHITECTURES, compilationFor } from './lib/cross.mjs'
import { compareVersions, oldestGlibc } from './lib/elf.mjs'
import { ROOT, run } from './lib/run.mjs'

/** Files that the build writes and the repository holds. */
export const GENERATED = ['binding.cjs', 'binding.d.cts']

const SOURCES = ['Cargo.toml', 'Cargo.lock', 'build.rs', 'package.json', 'src']

const CROSS = { napi: ['--use-napi-cross'], zig: ['--cross-compile'] }

/** That of the tools of --cross napi. README says it; whoever has an older one cannot load the addon. */
const OLDEST_GLIBC = '2.17'

/** gcc 4.8 of the same tools does not say for which version of the architecture it assembles, which `ring` insists on. */
const CROSS_NAPI_ENV = { CFLAGS_aarch64_unknown_linux_gnu: '-D__ARM_ARCH=8' }

/** Measured 8.17 MiB at most, with both supervisors. More than this is a dependency too many, or no link-time optimisation. */
const MAX_BYTES = 9 * 1024 * 1024

/**
 * Builds for a platform (without `target`, this one) with a profile of `Cargo.toml`; throws when the build fails. On Linux the
 * supervisor comes first, since the addon embeds it, unless `embedded` says that it is there. Resolves to the addon's path.
 */
export async function build({ profile = 'release', target, cross, embedded = false } = {}) {
  if (cross && !CROSS[cross]) throw new Error(`--cross was ${cross}; it may be ${Object.keys(CROSS).join(' or ')}`)
  if (embedded) mustBeEmbedded()
  else if (process.platform === 'linux') await buildSupervisor()
  const napi = join(ROOT, 'node_modules/.bin/napi')
  const args = ['build', '--platform', '--no-const-enum', '--js', GENERATED[0], '--dts', GENERATED[1]]
  if (target) args.push('--target', target)
  if (cross) args.push(...CROSS[cross])
  // napi looks for what the profile dev made in a folder of that name; cargo calls it debug.
  const { code } = await run(napi, profile === 'dev' ? args : [...args, '--profile', profile], {
    env: {
      // napi's command line runs this in place of cargo.
      ...(profile === 'release' && { CARGO: join(ROOT, 'scripts/cargo-addon.mjs') }),
      ...(cross === 'napi' && CROSS_NAPI_ENV),
      ...(!cross && toolsOf(target)),
    },
  })
  if (code !== 0) throw new Error(`The addon could not be built (exit code ${code}); the compiler's words are above`)
  const addon = join(ROOT, target ? addonOf(target) : newestOfThisPlatform())
  const bytes = readFileSync(addon)
  console.log(`${addon}: ${bytes.length} bytes${needsOfGlibc(bytes)}`)
  const reason = whyNotReleased(bytes, { profile, cross })
  if (reason) throw new Error(`${addon} cannot be released: ${reason}`)
  return addon
}

/** The file name of the addon for a target: napi's command line names it so. */
export function addonOf(target) {
  const [cpu, vendor, os, libc] = target.split('-')
  const arch = { x86_64: 'x64', aarch64: 'arm64' }[cpu]
  return `sandbox-docker.${vendor === 'apple' ? `darwin-${arch}` : `${os}-${arch}-${libc}`}.node`
}

function newestOfThisPlatform() {
  const found = readdirSync(ROOT).filter(isAddonOfThisPlatform)
  return found.toSorted((one, other) => newest(join(ROOT, one)) - newest(join(ROOT, other))).at(-1)
}

function needsOfGlibc(bytes) {
  const version = oldestGlibc(bytes)
  return version ? `, for glibc ${version} and newer` : ''
}

/** Why an addon must not be released; undefined when it may be. */
export function whyNotReleased(bytes, { profile, cross }) {
  if (profile === 'release' && bytes.length > MAX_BYTES) return `it has ${bytes.length} bytes, more than ${MAX_BYTES}`
  const glibc = oldestGlibc(bytes)
  if (cross === 'napi' && (!glibc || compareVersions(glibc, OLDEST_GLIBC) > 0))
    return `it needs glibc ${glibc}, newer than ${OLDEST_GLIBC}`
  return undefined
}

// What Debian has for other architectures; a target of this machine, or one that it has no tools for, is left to cargo.
function toolsOf(target) {
  const arch = Object.keys(ARCHITECTURES).find(name => ARCHITECTURES[name].target === target)
  return arch && process.platform === 'linux' ? compilationFor(arch).env : {}
}

// Without them the addon would build, and no run would have the resident transport.
function mustBeEmbedded() {
  const missing = Object.keys(ARCHITECTURES).filter(arch => !existsSync(supervisorPath(arch)))
  if (missing.length === 0) return
  throw new Error(
    `target/embed has no supervisor for ${missing.join(', ')}: npm run build:supervisor -- --arch x64,arm64`,
  )
}

/** Throws when a generated file is not as committed. */
export async function checkGenerated() {
  const untracked = await run('git', ['ls-files', '--error-unmatch', ...GENERATED], { show: false })
  if (untracked.code !== 0) throw new Error(`Commit the generated ${GENERATED.join(' and ')}:\n${untracked.output}`)
  const { code } = await run('git', ['diff', '--exit-code', 'HEAD', '--', ...GENERATED])
  if (code !== 0) throw new Error(`${GENERATED.join(' or ')} changed: commit what the build wrote`)
}

/** Whether there is no addon for this platform or a source is newer than it. */
export function isBuildNeeded() {
  const addons = readdirSync(ROOT).filter(isAddonOfThisPlatform)
  const built = Math.max(0, ...addons.map(name => newest(join(ROOT, name))))
  return (
    !GENERATED.every(name => existsSync(join(ROOT, name))) || SOURCES.some(name => newest(join(ROOT, name)) > built)
  )
}

function isAddonOfThisPlatform(name) {
  return name.includes(`.${process.platform}-${process.arch}`) && name.endsWith('.node')
}

// The time of the last change of a file, or of any file or folder in a folder; 0 when it does not exist.
function newest(path) {
  if (!existsSync(path)) return 0
  const stat = statSync(path)
  const inside = stat.isDirectory() ? readdirSync(path).map(name => newest(join(path, name))) : []
  return Math.max(stat.mtimeMs, ...inside)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      profile: { type: 'string' },
      check: { type: 'boolean' },
      target: { type: 'string' },
      cross: { type: 'string' },
      embedded: { type: 'boolean' },
    },
  })
  await build(values)
  if (values.check) await checkGenerated()
}
