// A user's project with a program of version 0.2.1 in it, which finds this package where npm would have put it.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../../../', import.meta.url))

/** The programs. */
export const PROGRAMS = ['agent', 'client']

/** Makes the project in an empty folder, and gives the program's path in it. */
export function projectOf(folder, program) {
  const packages = join(folder, 'node_modules', '@zhivex-ai')
  mkdirSync(packages, { recursive: true })
  for (const [name, place] of [
    ['sandbox-docker', root],
    ['sdk', join(here, 'sdk')],
    ['core', join(here, 'core')],
  ]) {
    symlinkSync(place, join(packages, name))
  }
  const file = join(folder, `${program}.mts`)
  copyFileSync(join(here, `${program}.mts`), file)
  return file
}

/** The same for a Node that runs no types. */
export function withoutTypes(file) {
  if (process.versions.bun) return file
  const plain = file.replace('.mts', '.mjs')
  execFileSync(join(root, 'node_modules/.bin/bun'), ['build', '--no-bundle', file, '--outfile', plain])
  return plain
}
