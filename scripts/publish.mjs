// Publishes what `npm run package` packed: the platform packages first, so that the main package never depends on one that is
// not in the registry. Called again after a failure it goes on where it stopped.
//
//   node scripts/publish.mjs [--from FOLDER] [--dry-run]
//
// Provenance says which workflow of which commit built a package; only a workflow can sign it, so elsewhere there is
// nothing but `--dry-run`. A version such as 1.0.0-rc.1 gets the tag `next`, all others `latest`.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { must, run } from './lib/run.mjs'
import { platforms } from './pack.mjs'

/**
 * The packages of a folder in the order to publish them, `{ name, version, path }` each. Throws unless they are the main
 * package and those of all platforms, of one version, and the main package depends on just these.
 */
export async function inOrder(folder) {
  const paths = readdirSync(folder)
    .filter(name => name.endsWith('.tgz'))
    .map(name => join(folder, name))
  const packages = []
  for (const path of paths) packages.push({ path, ...(await manifestOf(path)) })
  const main = packages.find(({ optionalDependencies }) => optionalDependencies)
  if (!main) throw new Error(`There is no main package in ${folder}`)
  const others = packages.filter(found => found !== main)
  const wanted = platforms().map(({ manifest }) => manifest.name)
  const same = (left, right) => JSON.stringify(left.toSorted()) === JSON.stringify(right.toSorted())
  const names = others.map(({ name }) => name)
  if (!same(names, wanted))
    throw new Error(`There are ${names.join(', ')} in ${folder}; needed are ${wanted.join(', ')}`)
  if (!same(Object.keys(main.optionalDependencies), wanted))
    throw new Error(`${main.name} depends on ${Object.keys(main.optionalDependencies).join(', ')}`)
  const versions = [...packages.map(({ version }) => version), ...Object.values(main.optionalDependencies)]
  if (new Set(versions).size !== 1) throw new Error(`Not all are of one version: ${[...new Set(versions)].join(', ')}`)
  return [...others, main]
}

async function manifestOf(path) {
  return JSON.parse(await must(`reading ${path}`, 'tar', ['-xzOf', path, 'package/package.json']))
}

async function isPublished({ name, version }) {
  const { code, output } = await run('npm', ['view', `${name}@${version}`, 'version'], { show: false })
  return code === 0 && output.includes(version)
}

/** Publishes the packages of a folder, or says what it would do. */
export async function publish({ from, dryRun = false }) {
  const inWorkflow = process.env.GITHUB_ACTIONS === 'true'
  if (!dryRun && !inWorkflow) throw new Error('Only the release workflow publishes; elsewhere there is --dry-run')
  for (const found of await inOrder(from)) {
    // Also where nothing is published: npm refuses to go through the motions for a version that is there.
    if (await isPublished(found)) {
      console.log(`${found.name}@${found.version} is published already`)
      continue
    }
    const tag = found.version.includes('-') ? 'next' : 'latest'
    const how = [...(inWorkflow ? ['--provenance'] : []), ...(dryRun ? ['--dry-run'] : [])]
    const args = ['publish', found.path, '--access', 'public', '--tag', tag, ...how]
    const { code } = await run('npm', args)
    if (code !== 0) throw new Error(`npm ${args.join(' ')} failed with exit code ${code}; its output is above`)
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { from: { type: 'string', default: 'packed' }, 'dry-run': { type: 'boolean', default: false } },
  })
  await publish({ from: values.from, dryRun: values['dry-run'] })
}
