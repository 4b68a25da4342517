// What it costs to load the package.

import { spawnSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Milliseconds of each of `rounds` calls of `require()`, each in a process of its own. */
export function requires(rounds) {
  const program = `const from = performance.now(); require(${JSON.stringify(ROOT)}); console.log(performance.now() - from)`
  return Array.from({ length: rounds }, () => Number(spawnSync(process.execPath, ['-e', program]).stdout))
}

/** Size of the addon that was built, in bytes. */
export function addonBytes() {
  const name = readdirSync(ROOT).find(file => file.endsWith('.node'))
  return statSync(`${ROOT}/${name}`).size
}
