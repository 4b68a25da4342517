// A Debian with the programs that fetch things over https: curl, wget, git, pip, npm, and a Node that takes a proxy from its
// environment, which Debian's is too old for.

import { chmodSync, copyFileSync, cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SUITE, debianMirror, kept } from './rootfs.mjs'
import { must } from './run.mjs'

/** From 24.5 on `NODE_USE_ENV_PROXY` is known for `fetch` and `node:https`. */
const NODE = '24.22.3'
/** Runs on that Node. */
const NPM = '11.6.2'
const PACKAGES = ['ca-certificates', 'curl', 'git', 'python3', 'python3-pip', 'python3-requests', 'wget']
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
  await packed(`node-linux-${process.arch}@${NODE}`, unpacked => {
    const path = join(folder, 'usr/bin/node')
    copyFileSync(join(unpacked, 'bin/node'), path)
    chmodSync(path, 0o755)
  })
  await packed(`npm@${NPM}`, unpacked => {
    cpSync(unpacked, join(folder, 'usr/lib/npm'), { recursive: true })
    symlinkSync('../lib/npm/bin/npm-cli.js', join(folder, 'usr/bin/npm'))
    chmodSync(join(folder, 'usr/lib/npm/bin/npm-cli.js'), 0o755)
  })
}

/** Hands the unpacked files of an npm package to `use`. */
async function packed(name, use) {
  const scratch = mkdtempSync(join(tmpdir(), 'sandbox-docker-npm-'))
  try {
    await must(`fetching ${name}`, 'npm', ['pack', '--silent', '--pack-destination', scratch, name])
    const [file] = readdirSync(scratch)
    await must(`unpacking ${name}`, 'tar', ['--extract', '--file', join(scratch, file), '--directory', scratch])
    use(join(scratch, 'package'))
  } finally {
    rmSync(scratch, { recursive: true })
  }
}
