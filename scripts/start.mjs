// `npm start`: runs an example, on the best engine that there is.
//
//   node scripts/start.mjs [name] [words]   examples/name.ts with these words; without a name, agent

import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { build, isBuildNeeded } from './build.mjs'
import { findEngine, findRunning } from './lib/find-engine.mjs'
import { ROOT, run } from './lib/run.mjs'
import { setup } from './setup.mjs'

const [name = 'agent', ...words] = process.argv.slice(2)
const example = join(ROOT, 'examples', `${name}.ts`)
if (!existsSync(example)) {
  const names = readdirSync(join(ROOT, 'examples')).filter(file => file.endsWith('.ts'))
  console.error(`There is no example ${name}; there are ${names.map(file => file.slice(0, -3)).join(', ')}.`)
  process.exit(2)
}

const needsBuild = isBuildNeeded()
await setup({ build: needsBuild, engine: !(await findRunning()), optionalEngine: true })
if (needsBuild) await build()
const { socketPath, from, reason, stop } = await findEngine()
if (reason) explain(reason)
else console.log(`Engine: ${from} (${socketPath})\n`)

const image = process.env.SANDBOX_IMAGE ?? 'alpine:3.21'
const env = reason ? { SANDBOX_MEMORY: '1' } : { SANDBOX_SOCKET: socketPath, SANDBOX_IMAGE: image }
const { code } = await run(join(ROOT, 'node_modules/.bin/bun'), [example, ...words], { env })
await stop?.()
process.exitCode = code

function explain(why) {
  console.log(`No Docker engine: ${why}.`)
  console.log('The example runs on the in-memory double: its commands are imitated and NOTHING IS ISOLATED.')
  console.log(
    'For a real one start Docker, or set DOCKER_HOST=unix:///path/to/docker.sock, or run this as root on Debian.\n',
  )
}
