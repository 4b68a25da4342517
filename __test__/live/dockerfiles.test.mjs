// docker/Dockerfile, built and used as its comment says, on an engine of this file's own, since it takes a public image's name.
// That image cannot be fetched here: BusyBox stands in, and for two programs that this one was built without, scripts.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import { startEngine } from '../../scripts/engine.mjs'
import { call } from '../../scripts/lib/engine-api.mjs'
import { createDockerSandboxEnvironment } from '../../index.js'
import { optionsIn, tagIn, textOf } from '../support/dockerfiles.mjs'
import { BUSYBOX, transport } from '../support/live.mjs'
import { temporaryDirectory } from '../support/stores.mjs'

const BASE = 'alpine:3.21'
const TIMEOUT_MS = 120_000

// With the options of BusyBox's own, and no others.
const ADDGROUP = `#!/bin/sh -e
[ $# = 3 ] && [ "$1" = -g ]
echo "$3:x:$2:" >> /etc/group
`
const ADDUSER = `#!/bin/sh -e
while getopts DHu:G:h:s: option; do
  case $option in
  u) uid=$OPTARG ;;
  G) gid=$(sed -n "s/^$OPTARG:x:\\([0-9]*\\):.*/\\1/p" /etc/group) ;;
  h) home=$OPTARG ;;
  s) shell=$OPTARG ;;
  D | H) ;;
  *) exit 1 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] && [ -n "$gid" ]
echo "$1:x:$uid:$gid::$home:$shell" >> /etc/passwd
`

let engine
before(async () => {
  engine = await startEngine({ images: ['busybox'] })
})
after(() => engine.stop())

/** Has the engine build a folder with these files; the one named `Dockerfile` says how. */
async function build(tag, files) {
  const folder = temporaryDirectory()
  mkdirSync(folder, { recursive: true })
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o755 })
  const body = Readable.from([execFileSync('tar', ['-c', '-C', folder, '.'])])
  const path = `/build?${new URLSearchParams({ t: tag, pull: 'false', rm: 'true', forcerm: 'true' })}`
  const reply = await call(engine.socketPath, 'POST', path, { body, type: 'application/x-tar', timeoutMs: TIMEOUT_MS })
  const said = reply.body.trim().split(/\r?\n/).map(JSON.parse)
  assert.equal(said.find(({ error }) => error)?.error, undefined, reply.body)
  assert.equal(reply.status, 200, reply.body)
}

test('docker/Dockerfile makes an image in which user 1000 has a name', { timeout: TIMEOUT_MS }, async () => {
  const stand = `FROM ${BUSYBOX}\nCOPY addgroup adduser /usr/sbin/\n`
  await build(BASE, { Dockerfile: stand, addgroup: ADDGROUP, adduser: ADDUSER })
  await build(tagIn('Dockerfile'), { Dockerfile: textOf('Dockerfile') })
  const environment = createDockerSandboxEnvironment({
    socketPath: engine.socketPath,
    pull: 'never',
    shell: 'allow',
    transport,
    workspace: { id: 'w' },
    ...optionsIn('Dockerfile'),
  })
  const run = await environment.acquire({ runId: randomUUID() })
  try {
    const { stdout, stderr } = await run.exec({ command: 'sh', args: ['-c', 'id -un; id -gn; id -u; echo ~; pwd'] })
    assert.deepEqual([stdout, stderr], ['sandbox\nsandbox\n1000\n/workspace\n/workspace\n', ''])
  } finally {
    await run.release({ status: 'completed' })
    await environment.close()
  }
})
