// What it costs to load the package.

import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isForThisPlatform, platforms } from '../scripts/pack.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Milliseconds of each of `rounds` calls of `require()`, each in a process of its own. */
export function requires(rounds) {
  const program = `const from = performance.now(); require(${JSON.stringify(ROOT)}); console.log(performance.now() - from)`
  return Array.from({ length: rounds }, () => Number(spawnSync(process.execPath, ['-e', program]).stdout))
}

/** Size of the addon that this process would load, in bytes. */
export function addonBytes() {
  const { addon } = platforms().find(({ manifest }) => isForThisPlatform(manifest))
  if (!addon) throw new Error('There is no addon for this platform: npm run build')
  return statSync(addon).size
}
