// A registry of images on this machine, for the tests of pulls: Debian's docker-registry.

import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onInterrupt } from './cleanup.mjs'
import { freePort, listens } from './ports.mjs'
import { until } from './proc.mjs'
import { ROOT, must, run } from './run.mjs'
import { findOnPath } from './tools.mjs'

const TOOLS = join(ROOT, 'target/tools')
const UNPACKED = join(TOOLS, 'usr/bin/docker-registry')
const START_MS = 20_000

/** Who may pull and push. The registry knows the password by its bcrypt hash alone, which only such a program can make. */
export const ACCOUNT = { username: 'tester', password: 'letmein' }
const HTPASSWD = `${ACCOUNT.username}:$2b$05$UwdZO0e0Uz2okpYOr8qyeei6VqrdYnZX0j3hXXKRhk8GFJnYxNAF2\n`

/** The program, if it is here. */
export const registryProgram = () => findOnPath('docker-registry') ?? (existsSync(UNPACKED) ? UNPACKED : undefined)

/** Fetches the program; the package is unpacked and not installed, since it would start a service. */
export async function fetchRegistry() {
  if (registryProgram()) return
  mkdirSync(TOOLS, { recursive: true })
  const download = () => run('apt-get', ['download', 'docker-registry'], { cwd: TOOLS, show: false })
  if ((await download()).code !== 0) {
    await run('apt-get', ['update'], { show: false })
    const { code, output } = await download()
    if (code !== 0) throw new Error(`apt-get could not download docker-registry:\n${output}`)
  }
  const name = readdirSync(TOOLS).find(file => file.startsWith('docker-registry_') && file.endsWith('.deb'))
  await must('unpacking docker-registry', 'dpkg', ['-x', join(TOOLS, name), TOOLS])
}

/** Starts one that knows `ACCOUNT` alone. Resolves to `{ host, stop }`, the host with its port. */
export async function startRegistry() {
  const program = registryProgram()
  if (!program) throw new Error('docker-registry is missing: node scripts/setup.mjs fetches it')
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-registry-'))
  const port = await freePort()
  writeFileSync(join(folder, 'htpasswd'), HTPASSWD)
  const config = {
    version: '0.1',
    log: { level: 'error' },
    storage: { filesystem: { rootdirectory: join(folder, 'data') } },
    http: { addr: `127.0.0.1:${port}`, secret: randomUUID() },
    auth: { htpasswd: { realm: 'tests', path: join(folder, 'htpasswd') } },
  }
  // JSON is YAML.
  writeFileSync(join(folder, 'config.yml'), JSON.stringify(config))
  // It ends with this process, however that ends.
  const args = ['--pdeathsig', 'TERM', program, 'serve', join(folder, 'config.yml')]
  const child = spawn('setpriv', args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', text => (said += text))
  let ended = false
  const end = new Promise(resolve => child.on('close', resolve)).then(() => (ended = true))
  const stop = async () => {
    forget()
    child.kill()
    await end
    rmSync(folder, { recursive: true, force: true })
  }
  const forget = onInterrupt(stop)
  await until(async () => ended || (await listens(port)), START_MS)
  if (ended || !(await listens(port))) {
    await stop()
    throw new Error(`The registry did not start:\n${said}`)
  }
  return { host: `127.0.0.1:${port}`, stop }
}
