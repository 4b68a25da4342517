// The folders of private engines. All of a user's engines live in numbered places under one folder in /tmp;
// a place is taken by an atomic rename, so two engines that start at once cannot get the same one. Its number also
// decides the engine's range of network addresses.

import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { rmdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { interfacesIn } from './address-pool.mjs'
import { bootId, commandLine, mountsBelow, processes, signalTo, startTime, until, withDescendants } from './proc.mjs'
import { must } from './run.mjs'

/** The most engines of one user at a time; `unusedBlock` has a block of addresses for each. */
export const PLACES = 32

// Ten seconds is what dockerd gives a container to end, and it needs about one for itself.
const STOP_MS = 20_000

/** The containerd namespace of the engine in `folder`. */
export function containerdNamespace(folder) {
  return `sandbox-docker-${process.getuid()}-${basename(folder)}`
}

/** Takes a free place and returns `{ folder, number }`. The folder says which process owns it. */
export function takePlace() {
  const base = baseFolder()
  const draft = mkdtempSync(join(base, 'new-'))
  const owner = { pid: process.pid, startTime: startTime(process.pid), bootId: bootId() }
  writeFileSync(join(draft, 'owner.json'), JSON.stringify(owner))
  for (let number = 0; number < PLACES; number++) {
    const folder = join(base, String(number))
    try {
      renameSync(draft, folder)
      return { folder, number }
    } catch (error) {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    }
  }
  rmSync(draft, { recursive: true })
  throw new Error(`No room for another private engine: ${PLACES} are running, see ${base}`)
}

/** Ends and removes what killed runs left behind: every place whose owner is dead. */
export async function collectStale() {
  const base = baseFolder()
  for (const name of readdirSync(base)) {
    const folder = join(base, name)
    const owner = readOwner(folder)
    const alive = owner && owner.bootId === bootId() && startTime(owner.pid) === owner.startTime
    if (!alive && !isYoungDraft(folder, owner)) await tearDown(folder)
  }
}

/** Stops the engine in `folder` with all that runs under it, unmounts what it mounted and removes the folder. */
export async function tearDown(folder) {
  await haltEngine(folder, 'SIGTERM')
  // Nothing is left after a clean stop. After a SIGKILL of dockerd the shims and the containers' processes are.
  const orphans = withDescendants(processesOf(folder))
  for (const pid of orphans) signalTo(pid, 'SIGKILL')
  await until(() => orphans.every(pid => startTime(pid) === undefined), STOP_MS)
  for (const point of mountsBelow(folder)) await must(`unmounting ${point}`, 'umount', ['--lazy', point])
  await removeBridges(folder)
  removeControlGroups(folder)
  rmSync(folder, { recursive: true, force: true })
}

/** Ends the daemon in `folder`, if it runs. After `SIGTERM` its containers have ended; after `SIGKILL` they run on. */
export async function haltEngine(folder, signal) {
  const engine = Number(readIfThere(join(folder, 'dockerd.pid')) || 0)
  const isOurs = () =>
    startTime(engine) !== undefined && commandLine(engine).includes(`--data-root=${join(folder, 'data')}`)
  if (!engine || !isOurs()) return
  if (signal === 'SIGTERM') {
    // First processes ignore SIGTERM, and dockerd would wait 10 s for each.
    const shims = processesOf(folder)
    const inside = withDescendants(shims).filter(pid => !shims.includes(pid))
    for (const pid of inside) signalTo(pid, 'SIGKILL')
  }
  const containerd = processesOf(folder).filter(pid => /(^|\/)containerd$/.test(commandLine(pid)[0]))
  signalTo(engine, signal)
  await until(() => !isOurs(), STOP_MS)
  // A daemon that ends has ended it. The next one would wait for one that does not.
  for (const pid of containerd) signalTo(pid, 'SIGKILL')
  await until(() => containerd.every(pid => startTime(pid) === undefined), STOP_MS)
  // One that nobody has waited for yet counts as running there.
  rmSync(join(folder, 'exec', 'containerd', 'containerd.pid'), { force: true })
}

// Its containerd and shims. Those of a containerd that is the machine's own are known by the engine's namespace.
function processesOf(folder) {
  const belongs = argument => argument.startsWith(`${folder}/exec/`) || argument === containerdNamespace(folder)
  return processes()
    .map(({ pid }) => pid)
    .filter(pid => commandLine(pid).some(belongs))
}

// The default bridge, and those of networks that nobody removed: dockerd leaves them.
async function removeBridges(folder) {
  const block = readIfThere(join(folder, 'addresses'))
  for (const name of block ? interfacesIn(block) : []) {
    await must(`removing the bridge ${name}`, 'busybox', ['ip', 'link', 'del', name])
  }
}

// A container whose engine was killed leaves empty groups under the parent that all engines of a machine share; Podman
// leaves that parent too, and a group for each of its watchers.
function removeControlGroups(folder) {
  const ofDocker = readdirIfThere(join(folder, 'data', 'containers'))
  const ofPodman = readdirIfThere(join(folder, 'data', 'overlay-containers'))
  const groups = [
    ...ofDocker.map(id => join('docker', id)),
    ...ofPodman.flatMap(id => [`libpod-${id}`, `libpod-conmon-${id}`]).map(name => join('libpod_parent', name)),
  ]
  for (const parent of ['', ...readdirIfThere('/sys/fs/cgroup')].map(name => join('/sys/fs/cgroup', name))) {
    for (const group of groups.map(name => join(parent, name)).filter(existsSync)) rmdirSync(group)
  }
}

function baseFolder() {
  // Not TMPDIR: places decide addresses, so all engines must see each other's, and a socket's path is 107 bytes at most.
  const base = `/tmp/sandbox-docker-engines-${process.getuid()}`
  mkdirSync(base, { recursive: true, mode: 0o700 })
  const found = lstatSync(base)
  // The name is known beforehand and the temp folder is everyone's: somebody else may have made it first.
  if (!found.isDirectory() || found.uid !== process.getuid() || (found.mode & 0o077) !== 0) {
    throw new Error(`${base} is not a private folder of this user; remove it and start again`)
  }
  return base
}

function readOwner(folder) {
  const text = readIfThere(join(folder, 'owner.json'))
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

// Between mkdtemp and the write of its owner a draft has none: only an old one is a leftover.
function isYoungDraft(folder, owner) {
  return owner === undefined && existsSync(folder) && Date.now() - lstatSync(folder).ctimeMs < 60_000
}

function readIfThere(path) {
  return existsSync(path) ? readFileSync(path, 'utf8') : ''
}

function readdirIfThere(path) {
  return existsSync(path) ? readdirSync(path) : []
}
