// Bun for arm64, on a machine of another architecture too: under QEMU's user mode. Node does not get as far as a first line of
// a program there.

import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT, must } from './run.mjs'

const FOLDER = join(ROOT, 'target/tools/bun-arm64')
const PROGRAM = join(FOLDER, 'package/bin/bun')
/** Where Debian's libc6-arm64-cross and libstdc++6-arm64-cross are. */
const SYSROOT = '/usr/aarch64-linux-gnu'

/** Fetches it from the npm registry, in the version of the development dependency, unless it is there. */
export async function fetchBunArm64() {
  if (existsSync(PROGRAM)) return
  mkdirSync(FOLDER, { recursive: true })
  const { bun } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).devDependencies
  await must('downloading Bun for arm64', 'npm', ['pack', `@oven/bun-linux-aarch64@${bun}`], { cwd: FOLDER })
  const archive = readdirSync(FOLDER).find(name => name.endsWith('.tgz'))
  await must('unpacking Bun for arm64', 'tar', ['-xzf', archive], { cwd: FOLDER })
}

/** The command that runs it, and its first arguments. */
export const BUN_ARM64 = process.arch === 'arm64' ? [PROGRAM] : ['qemu-aarch64-static', '-L', SYSROOT, PROGRAM]
