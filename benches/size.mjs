// What it costs to load the package.

import { spawnSync } from 'node:child_process'
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { must } from '../scripts/lib/run.mjs'
import { inTemporary } from '../scripts/lib/temporary.mjs'
import { isForThisPlatform, pack, platforms } from '../scripts/pack.mjs'

const NAME = '@zhivex-ai/sandbox-docker'
/** The package of the platform that this process runs on. */
const OWN = platforms().find(({ manifest }) => isForThisPlatform(manifest))
const PROGRAM = `const from = performance.now(); require('${NAME}'); console.log(performance.now() - from)`

/** Milliseconds of each of `rounds` calls of `require()` of the packed packages, each in a process of its own. */
export function requires(rounds) {
  return inTemporary('bench-', async folder => {
    const packed = await pack({ out: join(folder, 'packed') })
    for (const [path, name] of [
      [packed.main, NAME],
      [packed.platforms[0], OWN.manifest.name],
    ]) {
      const place = join(folder, 'node_modules', name)
      mkdirSync(place, { recursive: true })
      await must(`unpacking ${path}`, 'tar', ['-xzf', path, '-C', place, '--strip-components=1'])
    }
    return Array.from({ length: rounds }, () => {
      const { stdout, stderr, status } = spawnSync(process.execPath, ['-e', PROGRAM], { cwd: folder, encoding: 'utf8' })
      if (status !== 0) throw new Error(`${NAME} could not be loaded: ${stderr}`)
      return Number(stdout)
    })
  })
}

/** Size of the addon that this process would load, in bytes. */
export function addonBytes() {
  if (!OWN.addon) throw new Error('There is no addon for this platform: npm run build')
  return statSync(OWN.addon).size
}
