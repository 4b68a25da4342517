// Ten thousand operations of one session, and a gibibyte each way: memory and descriptors of both ends stay as they were.
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { flat } from './support/figures.mjs'
import { operations, streamBytes, warmUpBytes } from './support/lengths.mjs'
import { MIB, pause, room } from './support/room.mjs'

const { client, containers, environment } = room()
const PIECE = 64 * 1024
/** At most 50 MiB a second, which is slower than anything that it holds back. */
const SLOW_MS = 20
/** Nobody reads at first: everything on the way is full before the first byte is taken. */
const FULL_MS = 1_000
const WORKERS = 4

async function inSession(limits, use) {
  const owner = environment({ limits: { commandTimeoutMs: 15 * 60_000, ...limits } })
  const session = await owner.acquire({ runId: randomUUID() })
  try {
    const [{ Id }] = await containers()
    await use(session, (await client.inspectContainer(Id)).State.Pid)
  } finally {
    await session.release({ status: 'completed' })
    await owner.close()
  }
}

/** `count` times `work`, by a few workers at once. */
async function many(count, work) {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: WORKERS }, worker))
}

test(`${operations} commands in one session`, t =>
  inSession({}, async (session, inside) => {
    const command = async n => {
      const { stdout, exitCode } = await session.exec({ command: 'echo', args: [`answer ${n}`] })
      assert.deepEqual([stdout, exitCode], [`answer ${n}\n`, 0])
    }
    const seconds = await flat(
      t,
      `${operations} commands`,
      inside,
      () => many(operations / 4, command),
      () => many(operations, command),
    )
    t.diagnostic(`  ${((seconds / operations) * 1000).toFixed(2)} ms each, ${WORKERS} at once`)
  }))

test(`${operations} writes and as many reads in one session`, t =>
  inSession({}, async (session, inside) => {
    const pair = async n => {
      const [path, contents] = [`f${n % 100}-${n % WORKERS}/${n % 7}`, `contents ${n} `.repeat(n % 300)]
      // A name of its own, so that no other worker writes between.
      await session.writeFile(`${path}-${n % 1000}`, contents)
      const read = await session.readFile(`${path}-${n % 1000}`, { encoding: 'utf8' })
      assert.equal(read.contents, contents)
    }
    await flat(
      t,
      `${operations} writes, ${operations} reads`,
      inside,
      () => many(operations / 4, pair),
      () => many(operations, pair),
    )
  }))

// Sixteen bytes, so that the offset tells what must be at any place.
const LINE = Buffer.from('0123456789abcde\n')
const PATTERN = Buffer.alloc(4 * MIB + LINE.length, LINE)

/** Whether these are the bytes of the pattern from `offset` on. */
function assertPattern(bytes, offset) {
  for (let at = 0; at < bytes.length; at += 4 * MIB) {
    const part = Buffer.from(bytes.buffer, bytes.byteOffset + at, Math.min(4 * MIB, bytes.length - at))
    const from = (offset + at) % LINE.length
    assert.ok(part.equals(PATTERN.subarray(from, from + part.length)), `other bytes behind ${offset + at}`)
  }
}

/** Takes pieces slowly; how many bytes there were. */
async function takeSlowly(pieces) {
  await pause(FULL_MS)
  let [taken, rested] = [0, 0]
  for await (const piece of pieces) {
    assertPattern(piece, taken)
    taken += piece.length
    for (; taken - rested >= MIB; rested += MIB) await pause(SLOW_MS)
  }
  return taken
}

async function* pattern(length, hash) {
  for (let at = 0; at < length; at += PIECE) {
    const piece = PATTERN.subarray(0, Math.min(PIECE, length - at))
    hash?.update(piece)
    yield piece
  }
}

const inMib = bytes => `${bytes / MIB} MiB`

test(`${inMib(streamBytes)} of output through a slow reader`, t =>
  inSession({}, async (session, inside) => {
    const read = async length => {
      const script = `yes ${LINE.toString().trim()} | head -c ${length}`
      const stream = await session.execStream({ command: 'sh', args: ['-c', script] })
      async function* data() {
        for await (const piece of stream) yield piece.data
      }
      assert.equal(await takeSlowly(data()), length)
      const { outcome, exitCode } = await stream.result
      assert.deepEqual([outcome, exitCode], ['exited', 0])
    }
    await flat(
      t,
      `${inMib(streamBytes)} of output`,
      inside,
      () => read(warmUpBytes),
      () => read(streamBytes),
    )
  }))

test(`${inMib(streamBytes)} of input into a slow command`, t =>
  inSession({}, async (session, inside) => {
    const write = async length => {
      const hash = createHash('md5')
      const slow = `for i in $(seq ${length / MIB}); do dd bs=1048576 count=1 iflag=fullblock 2>/dev/null; sleep 0.02; done`
      const { stdout, outcome } = await session.exec({
        command: 'sh',
        args: ['-c', `sleep ${FULL_MS / 1000}; { ${slow}; cat; } | md5sum`],
        stdin: pattern(length, hash),
      })
      assert.deepEqual([outcome, stdout], ['exited', `${hash.digest('hex')}  -\n`])
    }
    await flat(
      t,
      `${inMib(streamBytes)} of input`,
      inside,
      () => write(warmUpBytes),
      () => write(streamBytes),
    )
  }))

test(`a file of ${inMib(streamBytes)} in and out`, t =>
  inSession(
    { memoryMb: (2 * streamBytes) / MIB + 512, maxWorkspaceBytes: streamBytes + warmUpBytes + 128 * MIB },
    async (session, inside) => {
      const write = async (path, length) => {
        assert.deepEqual(await session.writeFileStream(path, pattern(length)), { path, size: length })
      }
      const read = async (path, length) => {
        const stream = await session.readFileStream(path)
        assert.equal(stream.size, length)
        assert.equal(await takeSlowly(stream), length)
      }
      const names = inMib(streamBytes)
      await flat(
        t,
        `a file of ${names} in`,
        inside,
        () => write('small', warmUpBytes),
        () => write('big', streamBytes),
      )
      await flat(
        t,
        `a file of ${names} out`,
        inside,
        () => read('small', warmUpBytes),
        () => read('big', streamBytes),
      )
    },
  ))
