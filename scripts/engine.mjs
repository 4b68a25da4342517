// A private Docker engine for tests and examples: its own data, socket, containerd and addresses, gone when it stops.
//
//   node scripts/engine.mjs [--images busybox,debian,hostile]   starts one, prints its socket, stops on Ctrl-C
//   node scripts/engine.mjs --collect                           removes what killed runs left
//
// It leaves the machine's own engine alone: a default bridge of its own and no iptables rules, which all engines of a
// machine would share. (On docker0, --bip would move the other engine's bridge, and --bridge=none deletes it.) Networks
// work, from a range of addresses that only this engine uses. What iptables does for them does not
// happen here: an `--internal` network is not cut off from the machine's other networks, and ports are not published.

import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { firstNetwork, unusedBlock } from './lib/address-pool.mjs'
import { collectStale, containerdNamespace, haltEngine, takePlace, tearDown } from './lib/engine-home.mjs'
import { startService, stopper } from './lib/engine-service.mjs'
import { PATH, must } from './lib/run.mjs'
import { findOnPath } from './lib/tools.mjs'
import { IMAGES, loadImages } from './images.mjs'

const THIS_FILE = fileURLToPath(import.meta.url)

/** Why no private engine can be started here; undefined when one can. */
export function whyNoPrivateEngine() {
  if (process.platform !== 'linux') return 'a private engine needs Linux'
  if (process.getuid() !== 0) return 'a private engine needs root'
  const found = PATH.split(':').some(folder => existsSync(join(folder, 'dockerd')))
  return found ? undefined : 'dockerd is not installed (Debian package docker.io)'
}

/**
 * Starts an engine, loads `images` (names of `IMAGES`) and resolves to `{ socketPath, stop, halt, resume }`. `runtimes` are
 * further ones than runc, as its `daemon.json` has them; unless told otherwise, gVisor where it is installed. `args` are
 * further arguments of dockerd. `stop()` ends it with its containers and removes all of it; so do a signal to this process
 * and its exit. `halt(signal)` ends the daemon and leaves what it has, `resume()` starts it again. Rejects with the end of the
 * engine's log when it does not answer within 60 s.
 */
export async function startEngine({ images = [], runtimes = gvisor(), args = [] } = {}) {
  const reason = whyNoPrivateEngine()
  if (reason) throw new Error(`Cannot start a private engine: ${reason}`)
  await collectStale()
  const { folder, number } = takePlace()
  const stop = stopper(folder)
  try {
    const begin = await prepareEngine(folder, number, runtimes, args)
    const socketPath = join(folder, 'docker.sock')
    await begin()
    await loadImages(socketPath, images)
    return { socketPath, stop, halt: signal => haltEngine(folder, signal), resume: begin }
  } catch (error) {
    await stop()
    throw error
  }
}

// Without KVM, and without the machine's cgroups and networks, so that it runs wherever the tests do.
function gvisor() {
  const path = findOnPath('runsc')
  return path ? { runsc: { path, runtimeArgs: ['--platform=ptrace', '--ignore-cgroups', '--network=none'] } } : {}
}

/** Makes what an engine needs; the function that starts it. */
async function prepareEngine(folder, number, runtimes, more) {
  const namespace = containerdNamespace(folder)
  // A configuration of its own, or dockerd would read the machine's /etc/docker/daemon.json.
  writeFileSync(join(folder, 'daemon.json'), JSON.stringify({ runtimes }))
  const block = unusedBlock(number)
  writeFileSync(join(folder, 'addresses'), block)
  const bridge = await makeBridge(`sandbox-test${number}`, block)
  const args = [
    `--config-file=${join(folder, 'daemon.json')}`,
    `--pidfile=${join(folder, 'dockerd.pid')}`,
    `--data-root=${join(folder, 'data')}`,
    `--exec-root=${join(folder, 'exec')}`,
    `--host=unix://${join(folder, 'docker.sock')}`,
    `--bridge=${bridge}`,
    '--iptables=false',
    '--ip-forward=false',
    '--ip-masq=false',
    // Small networks, so that the block holds 128 of them.
    `--default-address-pool=base=${block},size=28`,
    // Where the machine runs containerd as a service, dockerd uses that one: containers must not mix there.
    `--containerd-namespace=${namespace}`,
    `--containerd-plugins-namespace=${namespace}-plugins`,
    '--exec-opt=native.cgroupdriver=cgroupfs',
    ...more,
  ]
  const command = ['dockerd', ...args]
  return () => startService(folder, { what: 'The private engine', command, log: 'dockerd.log' })
}

// dockerd makes no bridge but docker0 itself. Tearing down removes this one with those of user-defined networks.
async function makeBridge(name, block) {
  const ip = (...args) => must(`making the bridge ${name}`, 'busybox', ['ip', ...args])
  await ip('link', 'add', name, 'type', 'bridge')
  await ip('addr', 'add', firstNetwork(block), 'dev', name)
  await ip('link', 'set', name, 'up')
  return name
}

async function main([flag, value]) {
  if (flag === '--tear-down') return tearDown(value)
  if (flag === '--collect') return collectStale()
  const images = flag === '--images' ? value.split(',') : Object.keys(IMAGES)
  const { socketPath } = await startEngine({ images })
  console.log(`export DOCKER_HOST=unix://${socketPath}`)
  setInterval(() => {}, 2 ** 30)
}

if (process.argv[1] === THIS_FILE) await main(process.argv.slice(2))
