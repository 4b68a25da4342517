// `npm run try:packed`: the packed packages, installed as a user installs them, loaded and used without an engine. The installer
// must choose the one platform package that fits.
//
//   node scripts/try-packed.mjs [--from FOLDER]

import { readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { must } from './lib/run.mjs'
import { inTemporary } from './lib/temporary.mjs'
import { inOrder } from './publish.mjs'

// Both module systems, and the native part at work: the engine is the double in memory.
const PROGRAM = `
import { createRequire } from 'node:module'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from 'MAIN'
if (createRequire(import.meta.url)('MAIN').createDockerSandboxEnvironment !== createDockerSandboxEnvironment)
  throw new Error('import and require have different packages')
const sandbox = createDockerSandboxEnvironment({ client: createMemoryDockerClient(), workspace: { id: 'tried' } })
const run = await sandbox.acquire({ runId: 'tried' })
await run.writeFile('a.txt', 'it works')
const { contents } = await run.readFile('a.txt', { encoding: 'utf8' })
if (contents !== 'it works') throw new Error('the file has ' + contents)
await run.release({ status: 'completed' })
await sandbox.close()
`

/**
 * Installs packages, the main one last, in a project of its own and uses them there. Resolves to the names of the platform packages
 * that were installed; throws when there is not just one, or it does not work.
 */
export async function tryPacked(packages) {
  const main = packages.at(-1)
  // In a registry the main package's optionalDependencies would be found; here each is told where it is.
  const overrides = Object.fromEntries(packages.slice(0, -1).map(({ name, path }) => [name, `file:${resolve(path)}`]))
  return await inTemporary('sandbox-docker-tried-', async project => {
    const dependencies = { [main.name]: `file:${resolve(main.path)}` }
    writeFileSync(join(project, 'package.json'), JSON.stringify({ private: true, dependencies, overrides }))
    const how = ['install', '--no-audit', '--no-fund', '--omit=peer']
    await must('installing the packed packages', 'npm', how, { cwd: project })
    const scope = join(project, 'node_modules', main.name, '..')
    const installed = readdirSync(scope).map(name => `${main.name.split('/')[0]}/${name}`)
    const chosen = installed.filter(name => name !== main.name)
    if (chosen.length !== 1) throw new Error(`npm installed ${installed.join(', ')}: one platform's package is wanted`)
    writeFileSync(join(project, 'program.mjs'), PROGRAM.replaceAll('MAIN', main.name))
    await must('using the packed packages', process.execPath, ['program.mjs'], { cwd: project })
    return chosen
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { from: { type: 'string', default: 'packed' } } })
  const packages = await inOrder(values.from)
  const [name] = await tryPacked(packages)
  console.log(`${name} was installed and works`)
}
