// `npm run test:podman`: what the package promises on Podman, ending with one line `N passed, N failed`.
//
//   node scripts/test-podman.mjs [FILE...]   needs the Debian packages podman, conmon and runc; names those that are missing
//
// With files, such as `__test__/live/files.test.mjs`, those of the live tests are run on Podman instead, with
// `assurance: "best-effort"`; `SANDBOX_TEST_TRANSPORT` chooses their transport. docs/engines.md says which of them fail there.

import { randomUUID } from 'node:crypto'
import { run } from './lib/run.mjs'
import { totalsOf } from './lib/totals.mjs'
import { startPodman } from './podman.mjs'

const OWN = '__test__/live/podman.test.mjs'
/** The longest that one file may take. */
const FILE_MS = 600_000

const result = await test(process.argv.slice(2)).catch(error => {
  console.error(error.message)
  return { passed: 0, failed: 1 }
})
console.log(`\n${result.passed} passed, ${result.failed} failed`)
process.exitCode = result.failed > 0 ? 1 : 0

async function test(files) {
  const images = files.length > 0 ? undefined : ['busybox', 'debian', 'hostile']
  // Podman fills a variable that is asked for without a value from its own: the tests look for this one.
  const secret = randomUUID()
  const podman = await startPodman({ images, env: { SECRET: secret } })
  try {
    const env = { SANDBOX_TEST_SOCKET: podman.socketPath, SANDBOX_TEST_PODMAN_SECRET: secret }
    if (files.length > 0) env.SANDBOX_TEST_ASSURANCE = 'best-effort'
    const flags = ['--test', '--test-concurrency=1', `--test-timeout=${FILE_MS}`, '--test-reporter=spec']
    const wanted = files.length > 0 ? files : [OWN]
    return totalsOf('node', await run(process.execPath, [...flags, ...wanted], { env }))
  } finally {
    await podman.stop()
  }
}
