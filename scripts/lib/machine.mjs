// An emulated arm64 machine that makes containers for the tests of process 1: QEMU, a kernel, and our own first process.

import { spawn } from 'node:child_process'
import { chmodSync, closeSync, copyFileSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onInterrupt } from './cleanup.mjs'
import { machineParts } from './machine-parts.mjs'
import { freePort } from './ports.mjs'
import { signalTo, until } from './proc.mjs'
import { PATH, must } from './run.mjs'
import { findOnPath } from './tools.mjs'

/** What the emulator and its file system need. User-mode emulation runs the unit tests. */
export const EMULATOR_PACKAGES = {
  'qemu-system-arm': () => findOnPath('qemu-system-aarch64'),
  'qemu-user-static': () => findOnPath('qemu-aarch64-static'),
  'busybox-static': () => findOnPath('busybox'),
}

/** Two processors, as much memory as a few containers use, and nothing that QEMU would add by itself. */
const HARDWARE =
  '-machine virt -cpu cortex-a72 -accel tcg,thread=multi -smp 2 -m 2048 -nodefaults -no-reboot -display none -serial stdio'
/** It takes 5 s on an idle machine. */
const BOOT_MS = 120_000
const STOP_MS = 10_000
/** The guest's port; `tests/support/guest/machine.rs` listens there and says so. */
const PORT = 7000
const READY = 'machine: ready'

/**
 * Starts a machine and resolves to `{ address, stop }`: where it takes requests, on this machine's loopback, and what
 * ends it. `programs` are paths of static arm64 programs: `init`, the first one, and `supervisor` and `attack`, which
 * containers have in `/.sandbox`. Rejects with the end of the console when it is not ready within two minutes.
 */
export async function startMachine(programs) {
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-docker-machine-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.on('exit', remove)
  const forget = onInterrupt(remove)
  const clear = () => {
    remove()
    forget()
    process.off('exit', remove)
  }
  try {
    await makeFileSystem(folder, programs)
    // QEMU must be told a number. Who takes this one in between makes it end at once, with an error that says so.
    const port = await freePort()
    const emulator = boot(folder, port)
    const stop = () => emulator.end().finally(clear)
    await waitUntilReady(emulator, join(folder, 'console'), stop)
    return { address: `127.0.0.1:${port}`, stop }
  } catch (error) {
    clear()
    throw error
  }
}

async function makeFileSystem(folder, { init, supervisor, attack }) {
  await must('unpacking a machine', 'tar', ['--extract', '--file', await machineParts(), '--directory', folder])
  const root = join(folder, 'root')
  // Process 1 may be executed and not read: then the kernel lets nobody look into it, from its first instruction on.
  for (const [from, to, mode] of [
    [init, 'init', 0o755],
    [supervisor, 'image/.sandbox/supervisor', 0o111],
    [attack, 'image/.sandbox/attack', 0o555],
  ]) {
    copyFileSync(from, join(root, to))
    chmodSync(join(root, to), mode)
  }
  const script = `find . | busybox cpio -o -H newc -R 0:0 > ../initrd`
  await must('packing the file system', 'sh', ['-c', script], { cwd: root })
}

function boot(folder, port) {
  const console = openSync(join(folder, 'console'), 'a')
  const network = `user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:${port}-:${PORT}`
  const files = ['-kernel', join(folder, 'vmlinuz'), '-initrd', join(folder, 'initrd')]
  const kernel = ['-append', 'console=ttyAMA0 panic=-1 quiet']
  const card = ['-netdev', network, '-device', 'virtio-net-device,netdev=net']
  const args = [...HARDWARE.split(' '), ...files, ...kernel, ...card]
  // The kernel ends it when this process is killed and cannot do it itself.
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'qemu-system-aarch64', ...args], {
    env: { PATH },
    stdio: ['ignore', console, console],
  })
  closeSync(console)
  child.on('error', () => {})
  return handle(child)
}

function handle(child) {
  const isOver = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null
  const kill = () => !isOver() && signalTo(child.pid, 'SIGKILL')
  process.on('exit', kill)
  const end = async () => {
    kill()
    await until(isOver, STOP_MS)
    forget()
    process.off('exit', kill)
  }
  const forget = onInterrupt(end)
  return { isOver, end }
}

async function waitUntilReady({ isOver }, log, stop) {
  const said = () => (existsSync(log) ? readFileSync(log, 'utf8') : '')
  await until(() => isOver() || said().includes(READY), BOOT_MS)
  if (!isOver() && said().includes(READY)) return
  const lines = said().trim().split('\n').slice(-30).join('\n')
  await stop()
  throw new Error(`The arm64 machine did not start. The end of its console:\n${lines}`)
}
