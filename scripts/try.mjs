// `npm run try`: an addon that was built elsewhere, tried where it will run, without an engine, a compiler or the programs that
// `npm ci --ignore-scripts` leaves out.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT, run } from './lib/run.mjs'

// What needs more: Bun and TypeScript have programs of their own for each platform, and the rest is about the repository.
const ELSEWHERE = ['entry', 'known-faults', 'lifecycle-docs', 'publish', 'scripts', 'types', 'workflows']

const files = readdirSync(join(ROOT, '__test__'))
  .filter(name => name.endsWith('.test.mjs') && !ELSEWHERE.includes(name.replace('.test.mjs', '')))
  .map(name => `./__test__/${name}`)
const { code } = await run(process.execPath, ['--test', '--test-concurrency=1', ...files])
process.exitCode = code
