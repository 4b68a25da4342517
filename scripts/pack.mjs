// Packs what is published: the main package and a package for each platform, as .tgz files.
//
//   node scripts/pack.mjs [--all] [--out FOLDER] [--repository URL]
//
// --all: every platform's, and fails unless the addon of each is there; without it this platform's. --repository: where the packages are built, which a registry
// compares with their provenance.
//
// The package.json of this repository has no optionalDependencies on the platform packages: they are not in the registry
// before a release, so `npm ci` could not install them. The packed one has them, with this exact version. And js/ is one file in
// it, with what `js/main.cjs` requires: Node takes longer to find and open so many files than to read one of their size.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildSync } from 'esbuild'
import { ROOT, must } from './lib/run.mjs'

const MAIN = readJson(join(ROOT, 'package.json'))

/** What is published of js/. */
export const BUNDLE = 'js/main.cjs'

/** The platform packages, `{ name, folder, manifest, addon }` each; `addon` is the path of the built file, if any. */
export function platforms() {
  return readdirSync(join(ROOT, 'npm')).map(name => {
    const folder = join(ROOT, 'npm', name)
    const manifest = readJson(join(folder, 'package.json'))
    // A local build leaves the addon at the root; a release collects those of all platforms in their folders.
    const places = [join(folder, manifest.main), join(ROOT, manifest.main)]
    return { name, folder, manifest, addon: places.find(existsSync) }
  })
}

/** Whether a platform package is for the machine, and the libc, that this process runs on. */
export function isForThisPlatform({ os, cpu, libc }) {
  if (!os.includes(process.platform) || !cpu.includes(process.arch)) return false
  return !libc || libc.includes(process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl')
}

/**
 * Writes the packages into `out` and resolves to `{ main, platforms }`, the paths of their .tgz files. Only this platform's is
 * packed, and named by the main package's dependencies, whatever else was built; with `all` each is, and one whose addon is
 * missing is an error. `repository` is the URL that all of them name.
 */
export async function pack({ out, all = false, repository }) {
  const wanted = platforms().filter(({ manifest }) => all || isForThisPlatform(manifest))
  const built = wanted.filter(({ addon }) => addon)
  const missing = wanted.filter(({ addon }) => !addon)
  if (built.length === 0) throw new Error('No addon to pack: run `npm run build` first')
  if (all && missing.length > 0) throw new Error(`No addon for ${missing.map(({ name }) => name).join(', ')}`)
  mkdirSync(out, { recursive: true })
  const paths = []
  const source = repository ? { repository: { type: 'git', url: `git+${repository}.git` } } : {}
  for (const platform of built) paths.push(await packPlatform(platform, source, out))
  return { main: await packMain(built, source, out), platforms: paths }
}

function packMain(built, source, out) {
  const { scripts: _scripts, devDependencies: _dev, allowScripts: _allow, napi: _napi, ...published } = MAIN
  const optionalDependencies = Object.fromEntries(built.map(({ manifest }) => [manifest.name, MAIN.version]))
  const names = ['README.md', 'LICENSE', ...MAIN.files.filter(name => name !== 'js')]
  const files = names.map(name => [join(ROOT, name), name])
  return packFolder(files, { ...published, ...source, optionalDependencies }, out, bundle)
}

/** Not made smaller: whoever debugs an application reads it. Names of packages stay literals, for the application's own bundler. */
function bundle(stage) {
  buildSync({
    absWorkingDir: ROOT,
    entryPoints: [BUNDLE],
    outfile: join(stage, BUNDLE),
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    packages: 'external',
    external: ['../package.json'],
    logLevel: 'error',
  })
}

function packPlatform({ folder, manifest, addon }, source, out) {
  const files = [join(folder, 'README.md'), join(ROOT, 'LICENSE'), addon].map(path => [path, basename(path)])
  return packFolder(files, { ...manifest, ...source }, out)
}

// In a folder of its own, so that nothing but these files, paths and what they are called there, can get in.
async function packFolder(files, manifest, out, more = () => undefined) {
  const stage = mkdtempSync(join(tmpdir(), 'sandbox-docker-pack-'))
  try {
    for (const [from, to] of files) cpSync(from, join(stage, to), { recursive: true })
    more(stage)
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', resolve(out)]
    await must(`packing ${manifest.name}`, 'npm', args, { cwd: stage })
    return join(resolve(out), `${manifest.name.replace('@', '').replace('/', '-')}-${manifest.version}.tgz`)
  } finally {
    rmSync(stage, { recursive: true })
  }
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { all: { type: 'boolean' }, out: { type: 'string' }, repository: { type: 'string' } },
  })
  const packed = await pack({ out: 'packed', ...values })
  for (const path of [packed.main, ...packed.platforms]) console.log(path)
}
