// A host process that will be killed or stopped: acquires a run, says how it found the workspace, and works in it without
// end. What it begins and what was acknowledged it says on descriptor 3, one JSON array a line, before it goes on.
//
//   node host.mjs '{"options":{…},"stores":"/directory","runId":"…","round":1,"flood":false}'
import { writeSync } from 'node:fs'
import { createDockerSandboxEnvironment, createFileLeaseStore, createFileSnapshotStore } from '../../../index.js'
import { contentsOf, versionOf, workspaceOf } from './contents.mjs'
import { generator } from './random.mjs'

const { options, stores, runId, round, flood } = JSON.parse(process.argv[2])
const random = generator('host', runId, round)
let lastId = 0
let ending

function say(...words) {
  const line = Buffer.from(`${JSON.stringify(words)}\n`)
  for (let at = 0; at < line.length;) {
    try {
      at += writeSync(3, line, at)
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error
    }
  }
}

const environment = createDockerSandboxEnvironment({
  ...options,
  leaseStore: createFileLeaseStore({ directory: stores }),
  snapshotStore: createFileSnapshotStore({ directory: stores }),
})
const begun = performance.now()
const session = await environment.acquire({ runId })
say('acquired', Math.round(performance.now() - begun))
const found = await workspaceOf(session)
say('found', found)

const versions = { ...found.files }
const WORK = [
  () => small(['a0', 'a1', 'a2']),
  () => small(['deep/er/a3', 'a4']),
  () => large('b0'),
  () => streamed('b1'),
  () => appended(),
  () => piped('c0'),
]
say('ready')
if (flood) void overflow()
await Promise.race(WORK.map(work => repeat(work)))

// One after the other, until one fails, which is the end of all.
async function repeat(work) {
  try {
    for (;;) await work()
  } catch (error) {
    say('stopped', error.name, error.code ?? null, error.message)
    await (ending ??= afterwards())
  }
}

/** What a session that is not the holder's any more can still do: each call's end, the release's included. */
async function afterwards() {
  const calls = {
    writeFile: () => session.writeFile('a0', 'stale'),
    writeFileStream: () => session.writeFileStream('b1', pieces(Buffer.from('stale'))),
    readFile: () => session.readFile('a0'),
    readFileStream: () => session.readFileStream('a0'),
    list: () => session.list(),
    exec: () => session.exec({ command: 'sh', args: ['-c', 'echo stale >>log; echo stale >a1'] }),
    execStream: async () => (await session.execStream({ command: 'sh', args: ['-c', 'echo stale >a2'] })).result,
    spawn: async () => (await session.spawn({ command: 'sh', args: ['-c', 'echo stale >c0'] })).result,
    release: () => session.release({ status: 'completed' }),
  }
  for (const [name, call] of Object.entries(calls)) {
    const end = await call().then(
      () => ['done'],
      error => [error.name, error.code ?? null],
    )
    say('afterwards', name, ...end)
  }
  await environment.close()
  say('over')
  process.exit(0)
}

/** One operation: what is true of the workspace after it, if it is done at all, and its answer, which must be its own. */
async function operation(path, version, work) {
  const id = ++lastId
  say('begin', id, path, version)
  const wrong = await work()
  if (wrong) say('wrong', id, path, wrong)
  else say('end', id, path, version)
}

async function small(paths) {
  const path = random.pick(paths)
  const version = (versions[path] ?? 0) + 1
  const contents = contentsOf(path, version, random.between(1, 70_000))
  await operation(path, version, async () => {
    const { size } = await session.writeFile(path, contents)
    return size === contents.length ? undefined : `answer ${size} for ${contents.length}`
  })
  versions[path] = version
  await operation(null, null, async () => {
    const read = versionOf(path, Buffer.from((await session.readFile(path)).contents))
    return read === version ? undefined : `read ${read} after ${version}`
  })
}

async function large(path) {
  const version = (versions[path] ?? 0) + 1
  const contents = contentsOf(path, version, random.between(500_000, 4_000_000))
  await operation(path, version, async () => void (await session.writeFile(path, contents)))
  versions[path] = version
}

async function streamed(path) {
  const version = (versions[path] ?? 0) + 1
  const contents = contentsOf(path, version, random.between(500_000, 2_000_000))
  await operation(path, version, async () => void (await session.writeFileStream(path, pieces(contents))))
  versions[path] = version
  await operation(null, null, async () => {
    const got = []
    for await (const piece of await session.readFileStream(path)) got.push(piece)
    const read = versionOf(path, Buffer.concat(got))
    return read === version ? undefined : `streamed ${read} after ${version}`
  })
}

async function* pieces(contents) {
  for (let at = 0; at < contents.length; at += 50_000) yield contents.subarray(at, at + 50_000)
}

/** A line is added to a log, and the answer is this command's own. */
async function appended() {
  const version = (versions.log ?? 0) + 1
  const word = `${round}-${version}`
  await operation('log', version, async () => {
    const { stdout } = await session.exec({ command: 'sh', args: ['-c', `echo ${version} >>log; echo ${word}`] })
    return stdout === `${word}\n` ? undefined : `answer ${JSON.stringify(stdout)} for ${word}`
  })
  versions.log = version
}

/** Input that does not come to its end must not look as if it had. */
async function piped(path) {
  const version = (versions[path] ?? 0) + 1
  const contents = contentsOf(path, version, random.between(1, 600_000))
  const script = 'cat >c.part && mv c.part c0 && wc -c <c0'
  await operation(path, version, async () => {
    const { stdout } = await session.exec({ command: 'sh', args: ['-c', script], stdin: contents })
    return Number(stdout) === contents.length ? undefined : `answer ${JSON.stringify(stdout)} for ${contents.length}`
  })
  versions[path] = version
}

/** Output without end, which fills every buffer on its way as soon as nobody reads it. */
async function overflow() {
  const stream = await session.execStream({ command: 'yes', args: ['x'.repeat(1000)] })
  try {
    for await (const { data } of stream) if (data.length === 0) return
  } catch {
    // It ends with the session.
  }
}
