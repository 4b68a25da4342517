// A private Podman for tests: its Docker-compatible socket, its own data, network settings and test images, gone when it stops.
//
//   node scripts/podman.mjs [--images busybox,debian,hostile]   starts one, prints its socket, stops on Ctrl-C
//
// It takes one of the places of the private Docker engines, with its folders named as theirs: what removes those removes this
// one too (`node scripts/engine.mjs --collect`).

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { unusedBlock } from './lib/address-pool.mjs'
import { collectStale, takePlace } from './lib/engine-home.mjs'
import { startService, stopper } from './lib/engine-service.mjs'
import { findOnPath, missingOf } from './lib/tools.mjs'
import { IMAGES, loadImages } from './images.mjs'

/** What it needs beside what the images are made with. */
export const PODMAN_PACKAGES = {
  podman: () => findOnPath('podman'),
  conmon: () => findOnPath('conmon'),
  runc: () => findOnPath('runc'),
}

const THIS_FILE = fileURLToPath(import.meta.url)

/** Why none can be started here; undefined when one can. */
export function whyNoPodman() {
  if (process.platform !== 'linux') return 'a private Podman needs Linux'
  if (process.getuid() !== 0) return 'a private Podman needs root'
  const missing = missingOf(PODMAN_PACKAGES)
  return missing.length > 0 ? `these Debian packages are missing: ${missing.join(' ')}` : undefined
}

/**
 * Starts one, loads `images` (names of `IMAGES`) and resolves to `{ socketPath, stop }`. `env` is further environment of its
 * service. `stop()` ends it with its containers and removes all of it; so do a signal to this process and its exit. Rejects
 * with the end of its log when it does not answer within 60 s.
 */
export async function startPodman({ images = Object.keys(IMAGES), env = {} } = {}) {
  const reason = whyNoPodman()
  if (reason) throw new Error(`Cannot start Podman: ${reason}`)
  await collectStale()
  const { folder, number } = takePlace()
  const stop = stopper(folder)
  try {
    configure(folder, number)
    const socketPath = join(folder, 'docker.sock')
    await serve(folder, socketPath, env)
    await loadImages(socketPath, images)
    return { socketPath, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

// All that Podman would otherwise share with the machine's own: locks, networks, the log of events.
function configure(folder, number) {
  for (const name of ['networks', 'exec']) mkdirSync(join(folder, name))
  const block = unusedBlock(number)
  writeFileSync(join(folder, 'addresses'), block)
  const runtime = join(folder, 'runc')
  writeFileSync(runtime, runtimeWithin(), { mode: 0o755 })
  const lines = [
    '[engine]',
    'cgroup_manager = "cgroupfs"',
    'events_logger = "file"',
    'lock_type = "file"',
    'runtime = "runc"',
    '[engine.runtimes]',
    `runc = ["${runtime}"]`,
    '[network]',
    `network_config_dir = "${join(folder, 'networks')}"`,
    // Its bridge is found by its addresses when all is removed.
    `default_subnet = "${block.replace(/\/\d+$/, '/28')}"`,
    `default_subnet_pools = [{ base = "${block}", size = 28 }]`,
  ]
  writeFileSync(join(folder, 'containers.conf'), lines.join('\n'))
}

// As soon as a container has a limit of its own, Podman gives it a million open files and processes as well. Where that is
// more than this machine allows, itself in a container perhaps, none would start: so runc gets what is allowed.
function runtimeWithin() {
  return String.raw`#!/bin/sh
for argument; do
  case $before in
    --bundle | -b) file=$argument/config.json ;;
    --process | -p) file=$argument ;;
  esac
  before=$argument
done
within() {
  most=$(sed -n -E "s/^Max $1 +[^ ]+ +([0-9]+) .*/\1/p" /proc/self/limits)
  [ -z "$most" ] || sed -i -E 's/("type":"'$2'","hard":)1048576(,"soft":)1048576/\1'$most'\2'$most'/' "$file"
}
if [ -n "$file" ]; then
  within 'open files' RLIMIT_NOFILE
  within processes RLIMIT_NPROC
fi
exec ${findOnPath('runc')} "$@"
`
}

function serve(folder, socketPath, more) {
  const places = [
    '--root',
    join(folder, 'data'),
    '--runroot',
    join(folder, 'exec/run'),
    '--tmpdir',
    join(folder, 'exec/tmp'),
  ]
  const command = ['podman', ...places, 'system', 'service', '--time=0', `unix://${socketPath}`]
  const env = { CONTAINERS_CONF: join(folder, 'containers.conf'), ...more }
  return startService(folder, { what: 'The private Podman', command, log: 'podman.log', env })
}

async function main(args) {
  const { values } = parseArgs({ args, options: { images: { type: 'string' } } })
  const { socketPath } = await startPodman({ images: values.images?.split(',') })
  console.log(`export DOCKER_HOST=unix://${socketPath}`)
  setInterval(() => {}, 2 ** 30)
}

if (process.argv[1] === THIS_FILE) await main(process.argv.slice(2))
