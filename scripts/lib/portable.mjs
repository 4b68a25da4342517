// Tests of an addon that need no engine, no compiler and no program of another package.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './run.mjs'

// What needs more: Bun and TypeScript have programs of their own for each platform, and the rest is about the repository.
const ELSEWHERE = [
  'build',
  'elf',
  'entry',
  'known-faults',
  'lifecycle-docs',
  'publish',
  'scripts',
  'types',
  'workflows',
]

/** Their paths, from the root of the repository. */
export function portableTests() {
  return readdirSync(join(ROOT, '__test__'))
    .filter(name => name.endsWith('.test.mjs') && !ELSEWHERE.includes(name.replace('.test.mjs', '')))
    .map(name => `./__test__/${name}`)
}
