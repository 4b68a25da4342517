// `npm run soak`: the long proofs of the resident transport, ending with one line `N passed, N failed`.
//
//   node scripts/soak.mjs [--short] [--only races,kills] [--seed N]   files of __test__/soak; the lengths are in its
//                                                                     support/lengths.mjs
//
// Does its own set-up, as `npm test` does. SANDBOX_TEST_SOCKET names a private engine that has the images already; without
// it one is started, and is gone at the end, as is the folder of all temporary files, also after a signal.

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from './build.mjs'
import { startEngine } from './engine.mjs'
import { ROOT, run } from './lib/run.mjs'
import { inTemporary } from './lib/temporary.mjs'
import { totalsOf } from './lib/totals.mjs'
import { setup } from './setup.mjs'

const FOLDER = '__test__/soak'
const IMAGES = ['busybox', 'racer']
/** The longest that one file may take: the races take a minute for each of 18 pairs, and some seconds between. */
const FILE_MS = 60 * 60_000

const { values } = parseArgs({
  options: { short: { type: 'boolean', default: false }, only: { type: 'string' }, seed: { type: 'string' } },
})
const { passed, failed } = await soak(filesOf(values.only)).catch(error => {
  console.error(error.message)
  return { passed: 0, failed: 1 }
})
console.log(`\n${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0

async function soak(files) {
  const given = process.env.SANDBOX_TEST_SOCKET
  await setup({ engine: !given })
  await build()
  const engine = given ? { socketPath: given, stop: async () => {} } : await startEngine({ images: IMAGES })
  try {
    // A short path: sockets lie in it.
    return await inTemporary('soak-', async TMPDIR => {
      const env = {
        TMPDIR,
        SANDBOX_TEST_SOCKET: engine.socketPath,
        SANDBOX_SOAK: values.short ? 'short' : 'full',
        ...(values.seed && { SANDBOX_SOAK_SEED: values.seed }),
      }
      const flags = ['--test', '--test-concurrency=1', `--test-timeout=${FILE_MS}`, '--test-reporter=spec']
      return totalsOf('node', await run(process.execPath, [...flags, ...files], { env }))
    })
  } finally {
    await engine.stop()
  }
}

function filesOf(only) {
  const names = only ? only.split(',').map(name => `${name}.test.mjs`) : readdirSync(join(ROOT, FOLDER)).toSorted()
  const files = names.filter(name => name.endsWith('.test.mjs')).map(name => `./${FOLDER}/${name}`)
  const missing = files.filter(file => !existsSync(join(ROOT, file)))
  if (missing.length > 0) {
    console.error(`There is no ${missing.join(' and no ')}`)
    process.exit(2)
  }
  return files
}
