// `npm run try`: an addon that was built elsewhere, tried where it will run, without an engine, a compiler or the programs that
// `npm ci --ignore-scripts` leaves out.

import { portableTests } from './lib/portable.mjs'
import { run } from './lib/run.mjs'

const { code } = await run(process.execPath, ['--test', '--test-concurrency=1', ...portableTests()])
process.exitCode = code
