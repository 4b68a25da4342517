// `npm run try`: an addon that was built elsewhere, tried where it will run, without an engine, a compiler or the programs that
// `npm ci --ignore-scripts` leaves out. By Bun, where that runs this file.

import { portableTests } from './lib/portable.mjs'
import { run } from './lib/run.mjs'

// Bun's own limit for a test is 5 s.
const how = process.versions.bun ? ['test', '--timeout=60000'] : ['--test', '--test-concurrency=1']
const { code } = await run(process.execPath, [...how, ...portableTests()])
process.exitCode = code
