// A Debian with the programs that fetch things over https: curl, git, pip, and a Node that takes a proxy from its
// environment, which Debian's is too old for.

import { copyFileSync, chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SUITE, debianMirror, kept } from './rootfs.mjs'
import { must } from './run.mjs'

/** From 24.5 on `NODE_USE_ENV_PROXY` is known for `fetch` and `node:https`. */
const NODE = '24.22.3'
const PACKAGES = ['ca-certificates', 'curl', 'git', 'python3', 'python3-pip', 'python3-requests']
/** Nobody reads it in a test. */
const USELESS = ['usr/share/doc', 'usr/share/man', 'usr/share/locale', 'var/cache/apt', 'var/lib/apt/lists']

/** The tar of it. It takes a minute or two the first time, and is then kept. */
export function clientsTar() {
  return kept(`clients-${SUITE}`, fill, import.meta.url)
}

async function fill(folder) {
  const include = `--include=${PACKAGES.join(',')}`
  // In a mount namespace of its own, as the other Debian.
  const args = ['--mount', 'debootstrap', '--variant=minbase', include, SUITE, folder, ...(await debianMirror())]
  await must('making a Debian root file system with programs that fetch', 'unshare', args)
  for (const name of USELESS) rmSync(join(folder, name), { recursive: true, force: true })
  await node(join(folder, 'usr/bin/node'))
}

/** Node's own binary, from its package for this platform. */
async function node(path) {
  const scratch = mkdtempSync(join(tmpdir(), 'sandbox-docker-node-'))
  try {
    const name = `node-linux-${process.arch}@${NODE}`
    await must('fetching Node', 'npm', ['pack', '--silent', '--pack-destination', scratch, name])
    const [packed] = readdirSync(scratch)
    await must('unpacking Node', 'tar', ['--extract', '--file', join(scratch, packed), '--directory', scratch])
    copyFileSync(join(scratch, 'package/bin/node'), path)
    chmodSync(path, 0o755)
  } finally {
    rmSync(scratch, { recursive: true })
  }
}
