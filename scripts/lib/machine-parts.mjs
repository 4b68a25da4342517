// What an emulated arm64 machine is made of: Debian's kernel and BusyBox, downloaded and unpacked, never installed.

import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fillWithBusybox, kept } from './rootfs.mjs'
import { must } from './run.mjs'

const BUSYBOX = 'busybox-static:arm64'
/** Depends on the newest one; its own name has no version in it. */
const KERNEL = 'linux-image-arm64:arm64'
/** Drivers of the network card; `tests/support/guest/machine.rs` loads them. */
const MODULES = ['virtio_mmio', 'failover', 'net_failover', 'virtio_net']
/** Where containers have something mounted. */
const MOUNT_POINTS = ['workspace', '.sandbox']

/**
 * The path of a tar with `vmlinuz`, and in `root/` what the machine's first file system holds: `modules/`, and in
 * `image/` the root of all containers. Downloads 60 MB the first time.
 */
export function machineParts() {
  return kept('machine-arm64', fill, import.meta.url)
}

async function fill(folder) {
  const downloads = mkdtempSync(join(folder, 'download-'))
  await must('downloading a kernel', 'apt-get', ['download', await kernelPackage(), BUSYBOX], { cwd: downloads })
  for (const name of readdirSync(downloads))
    await must(`unpacking ${name}`, 'dpkg-deb', ['-x', name, '.'], { cwd: downloads })
  const root = join(folder, 'root')
  for (const name of ['proc', 'sys', 'dev', 'root', 'modules', 'image'])
    mkdirSync(join(root, name), { recursive: true })
  await fillWithBusybox(join(root, 'image'), join(downloads, 'bin/busybox'))
  for (const name of MOUNT_POINTS) mkdirSync(join(root, 'image', name))
  const kernel = readdirSync(join(downloads, 'boot')).find(name => name.startsWith('vmlinuz-'))
  copyFileSync(join(downloads, 'boot', kernel), join(folder, 'vmlinuz'))
  copyModules(join(downloads, 'lib/modules'), join(root, 'modules'))
  rmSync(downloads, { recursive: true })
}

async function kernelPackage() {
  const said = await must('asking apt for a kernel', 'apt-cache', ['depends', KERNEL])
  const name = /Depends: (linux-image-\S+)/.exec(said)?.[1]
  if (!name)
    throw new Error(`apt knows no ${KERNEL}: as root, \`dpkg --add-architecture arm64\` and \`apt-get update\``)
  return name.endsWith(':arm64') ? name : `${name}:arm64`
}

function copyModules(from, to) {
  const all = readdirSync(from, { recursive: true })
  for (const module of MODULES) {
    const path = all.find(name => name.endsWith(`/${module}.ko`))
    if (!path) throw new Error(`The kernel has no module ${module}`)
    copyFileSync(join(from, path), join(to, `${module}.ko`))
  }
}
