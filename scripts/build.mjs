// Builds the addon with its generated loader and types.
//
//   node scripts/build.mjs [--profile dev|quick] [--check]
//
// Without --profile it is the release. --check fails when the generated files differ from the committed ones.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildSupervisor } from './build-supervisor.mjs'
import { ROOT, run } from './lib/run.mjs'

/** Files that the build writes and the repository holds. */
export const GENERATED = ['binding.cjs', 'binding.d.cts']

const SOURCES = ['Cargo.toml', 'Cargo.lock', 'build.rs', 'package.json', 'src']

/** Builds for this platform with a profile of `Cargo.toml`; throws when the build fails. On Linux the supervisor comes first, since the addon embeds it. */
export async function build({ profile = 'release' } = {}) {
  if (process.platform === 'linux') await buildSupervisor()
  const napi = join(ROOT, 'node_modules/.bin/napi')
  const args = ['build', '--platform', '--no-const-enum', '--js', GENERATED[0], '--dts', GENERATED[1]]
  // napi looks for what the profile dev made in a folder of that name; cargo calls it debug.
  const { code } = await run(napi, profile === 'dev' ? args : [...args, '--profile', profile])
  if (code !== 0) throw new Error(`The addon could not be built (exit code ${code}); the compiler's words are above`)
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
  const { values } = parseArgs({ options: { profile: { type: 'string' }, check: { type: 'boolean' } } })
  await build(values)
  if (values.check) await checkGenerated()
}
