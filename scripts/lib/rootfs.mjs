// Root file systems for test images, as tar files that are kept between runs.

import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onInterrupt } from './cleanup.mjs'
import { toolchainFor } from './cross.mjs'
import { ROOT, must } from './run.mjs'
import { findOnPath } from './tools.mjs'

export const SUITE = 'bookworm'
const RACER = join(ROOT, '__test__/soak/racer.rs')

// Visible in `docker top`, and it keeps the container running: a test that lets it run sees that it did.
const EVIL = '#!/bin/sh\necho evil ran\ntouch /data/evil-ran\nexec /bin/sleep 100000\n'

/** BusyBox alone: its applets as links where BusyBox itself would put them, no user database. */
export function busyboxTar() {
  return kept('busybox', folder => fillWithBusybox(folder))
}

/** BusyBox with a first process of its own. */
export function hostileTar() {
  return kept('hostile', async folder => {
    await fillWithBusybox(folder)
    writeFileSync(join(folder, 'bin/evil'), EVIL, { mode: 0o755 })
  })
}

/**
 * BusyBox with a program that races for names, and files outside the workspace that it tries to lead the sandbox to: their
 * contents and one of their names are nowhere else.
 */
export function racerTar() {
  const fill = async folder => {
    await fillWithBusybox(folder)
    const { rustc, flags } = toolchainFor(process.arch)
    const args = ['--edition', '2024', '-O', '-C', 'strip=symbols', ...flags, '-o', join(folder, 'bin/racer')]
    await must('compiling the racer', rustc, [...args, RACER])
    mkdirSync(join(folder, 'canary/sub'), { recursive: true })
    for (const name of ['f', 'w', 'big', 'sub/f', 'outsider']) {
      writeFileSync(join(folder, 'canary', name), 'CANARY of the image\n', { mode: 0o666 })
    }
  }
  return kept('racer', fill, import.meta.url, pathToFileURL(RACER))
}

/** A minimal Debian: GNU tools, a dynamic linker, a user database. Takes about half a minute the first time. */
export function debianTar() {
  return kept(`debian-${SUITE}`, async folder => {
    const mirror = await debianMirror()
    // In a mount namespace of its own: debootstrap mounts /proc in the folder, and may be interrupted.
    const args = ['--mount', 'debootstrap', '--variant=minbase', SUITE, folder, ...mirror]
    await must('making a Debian root file system', 'unshare', args)
    for (const name of ['var/cache/apt', 'var/lib/apt/lists']) rmSync(join(folder, name), { recursive: true })
  })
}

/** Nothing at all. */
export function scratchTar() {
  return kept('scratch', () => undefined)
}

/** What images without a distribution have: a dynamic linker, libraries, one language (Perl). No shell, no tools, no tar. */
export function distrolessTar() {
  return kept(`distroless-${SUITE}`, async folder => {
    await must('unpacking Debian', 'tar', ['--extract', '--file', await debianTar(), '--directory', folder])
    for (const place of ['usr/bin', 'usr/sbin']) {
      for (const name of readdirSync(join(folder, place))) {
        if (!name.startsWith('perl')) rmSync(join(folder, place, name), { recursive: true })
      }
    }
  })
}

/** Whether an ELF file needs no dynamic linker: the linker's name would be near the start of the file. */
export function isStatic(path) {
  return !readFileSync(path).subarray(0, 4096).includes('/ld-')
}

/**
 * Makes a root file system of BusyBox in a folder. `program` is the BusyBox to put there where it is not this machine's
 * own, which is asked for its applets: another architecture's cannot be.
 */
export async function fillWithBusybox(folder, program) {
  const busybox = findOnPath('busybox')
  if (!busybox || !isStatic(busybox)) throw new Error('No static busybox: install the Debian package busybox-static')
  for (const name of ['bin', 'dev', 'etc', 'proc', 'sys', 'tmp']) mkdirSync(join(folder, name))
  chmodSync(join(folder, 'tmp'), 0o1777)
  copyFileSync(program ?? busybox, join(folder, 'bin/busybox'))
  const applets = await must('listing the applets', busybox, ['--list-full'])
  for (const applet of applets.trim().split('\n')) {
    mkdirSync(dirname(join(folder, applet)), { recursive: true })
    if (applet !== 'bin/busybox') symlinkSync('/bin/busybox', join(folder, applet))
  }
}

// The mirror that this machine's apt is set to, as an argument list; empty for debootstrap's own choice.
export async function debianMirror() {
  const filters = [`Codename: ${SUITE}`, 'Component: main', 'Created-By: Packages']
  const sites = await must('asking apt for its mirror', 'apt-get', ['indextargets', '--format', '$(SITE)', ...filters])
  return sites.trim().split('\n').filter(Boolean).slice(0, 1)
}

/**
 * The path of the tar of what `fill` puts into an empty folder. Its name has a hash of the recipe: the files at those
 * URLs, this module where none is given.
 */
export async function kept(name, fill, ...recipe) {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sandbox-docker')
  const sources = recipe.length > 0 ? recipe : [import.meta.url]
  const hash = sources
    .reduce((all, source) => all.update(readFileSync(new URL(source))), createHash('sha256'))
    .digest('hex')
    .slice(0, 12)
  const path = join(cache, `${name}-${process.arch}-${hash}.tar`)
  if (existsSync(path)) return path
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-docker-rootfs-'))
  // Renamed when whole, so that neither an interrupted run nor one beside this one leaves half a file.
  const draft = `${path}.${process.pid}`
  const remove = () => [folder, draft].forEach(left => rmSync(left, { recursive: true, force: true }))
  const forget = onInterrupt(remove)
  try {
    // mkdtemp makes a folder for this user alone, but it becomes the image's root.
    chmodSync(folder, 0o755)
    await fill(folder)
    await must('packing an image', 'tar', ['--create', '--file', draft, '--directory', folder, '--numeric-owner', '.'])
    renameSync(draft, path)
    return path
  } finally {
    remove()
    forget()
  }
}
