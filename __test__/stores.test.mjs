// The stores of this package as the application calls them: memory and files, leases and snapshots.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import {
  createFileLeaseStore,
  createFileSnapshotStore,
  createMemoryLeaseStore,
  createMemorySnapshotStore,
} from '../index.js'
import { memoryHeld } from './support/garbage.mjs'
import { bytesOf, environment, failureOf, meta, piecesOf, record, temporaryDirectory } from './support/stores.mjs'

const root = temporaryDirectory()
let made = 0
const fresh = () => join(root, `directory-${made++}`)
const only = (directory, ending) => {
  const names = readdirSync(directory).filter(name => name.endsWith(ending))
  assert.equal(names.length, 1, names.join())
  return join(directory, names[0])
}

const LEASE_STORES = {
  memory: createMemoryLeaseStore,
  file: () => createFileLeaseStore({ directory: fresh() }),
}
const SNAPSHOT_STORES = {
  memory: createMemorySnapshotStore,
  file: () => createFileSnapshotStore({ directory: fresh() }),
}

for (const [kind, make] of Object.entries(LEASE_STORES)) {
  test(`${kind} leases: compare and set, plain records, unknown fields kept`, async () => {
    const store = make()
    assert.equal(await store.load('k'), undefined)
    const holder = { id: 'h', hostId: '', bootId: 'b', pid: 1, startTime: 2, heartbeatAt: 3 }
    const first = record('k', 1, { holder, networkId: 'net', mine: { deep: [1, null, 'é'] } })
    assert.equal(await store.save(first, null), true)
    assert.deepEqual(await store.load('k'), first)
    assert.equal(await store.save(first, null), false)
    assert.equal(await store.save(record('k', 2), 1), true)
    const read = await store.load('k')
    assert.deepEqual(read, record('k', 2))
    assert.deepEqual(Object.keys(read).toSorted(), Object.keys(record('k')).toSorted())
    assert.equal(await store.save(record('k', 3), 1), false)
    await store.save(record('j', 1), null)
    await store.save(record('other', 1, { ownerId: 'p' }), null)
    assert.deepEqual(await store.list('o'), [record('j'), record('k', 2)])
    assert.equal(await store.remove('k', 1), false)
    assert.equal(await store.remove('k', 2), true)
    assert.equal(await store.remove('k', 2), false)
    assert.equal(await store.load('k'), undefined)
  })

  test(`${kind} leases: a record is checked field by field`, async () => {
    const store = make()
    for (const [change, message] of [
      [{ fence: -1 }, 'The lease record: fence was -1; it must be a whole number from 0 to 2^53 - 1.'],
      [{ fence: 1.5 }, 'The lease record: fence was 1.5; it must be a whole number from 0 to 2^53 - 1.'],
      [
        { expiresAt: 2 ** 53 },
        'The lease record: expiresAt was 9007199254740992; it must be a whole number from 0 to 2^53 - 1.',
      ],
      [{ status: undefined }, 'The lease record: status was missing; it must be a string.'],
      [{ holder: undefined }, 'The lease record: holder was missing; it must be an object or null.'],
      [{ imageIds: 'i' }, 'The lease record: imageIds was a string; it must be a list of strings.'],
    ]) {
      const error = await failureOf(store.save(record('k', 1, change), null))
      assert.deepEqual([error.code, error.message], ['CONFIG_INVALID', message])
    }
    for (const fence of [Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.equal((await failureOf(store.save(record('k', fence), null))).code, 'CONFIG_INVALID')
    }
    assert.equal(await store.load('k'), undefined)
  })
}

for (const [kind, make] of Object.entries(SNAPSHOT_STORES)) {
  test(`${kind} snapshots: streams both ways, all or nothing`, async () => {
    const store = make()
    assert.equal(await store.load('k'), undefined)
    const pieces = [1, 100_000, 1_000_000, 0, 3].map((size, index) => Buffer.alloc(size, index + 1))
    await store.save('k', { ...meta, mine: 1 }, piecesOf(pieces))
    const found = await store.load('k')
    assert.deepEqual(found.meta, { ...meta, mine: 1 })
    assert.ok((await bytesOf(found.tar)).equals(Buffer.concat(pieces)))
    // Once only: a stream is read, not kept.
    assert.equal((await bytesOf(found.tar)).length, 0)

    const thrown = new Error('the source broke')
    async function* breaking() {
      yield pieces[1]
      throw thrown
    }
    await assert.rejects(store.save('k', meta, breaking()), error => error === thrown)
    assert.ok((await bytesOf((await store.load('k')).tar)).equals(Buffer.concat(pieces)))

    await store.save('k', meta, piecesOf([]))
    assert.equal((await bytesOf((await store.load('k')).tar)).length, 0)
    await store.remove('k')
    await store.remove('k')
    assert.equal(await store.load('k'), undefined)
  })

  test(`${kind} snapshots: what is no tar, no piece or no meta data is refused by name`, async () => {
    const store = make()
    for (const tar of [undefined, null, 'text', 5, {}, new Uint8Array(4)]) {
      const error = await failureOf(store.save('k', meta, tar))
      assert.match(error.message, /^The tar was .*; it must be an async iterable of Uint8Array\.$/)
    }
    for (const piece of ['text', 5, null, {}, [1]]) {
      const error = await failureOf(store.save('k', meta, piecesOf([piece])))
      assert.match(error.message, /^A piece of the archive was .*; it must be a Uint8Array\.$/)
    }
    const error = await failureOf(store.save('k', { ...meta, createdAt: -1 }, piecesOf([])))
    assert.equal(
      error.message,
      'The meta data of the snapshot: createdAt was -1; it must be a whole number from 0 to 2^53 - 1.',
    )
    assert.equal(await store.load('k'), undefined)
  })

  test(`${kind} snapshots: leaving a tar early ends it`, async () => {
    const store = make()
    await store.save('k', meta, piecesOf([Buffer.alloc(1_000_000)]))
    const { tar } = await store.load('k')
    for await (const piece of tar) {
      assert.ok(piece.length > 0)
      break
    }
    assert.deepEqual(await tar.next(), { value: undefined, done: true })
  })
}

test('file stores of one directory share what they keep, whoever made it', async () => {
  const directory = fresh()
  const [one, two] = [createFileLeaseStore({ directory }), createFileLeaseStore({ directory })]
  assert.equal(await one.save(record('k'), null), true)
  assert.equal(await two.save(record('k'), null), false)
  assert.deepEqual(await two.load('k'), record('k'))
  const snapshots = createFileSnapshotStore({ directory })
  await snapshots.save('k', meta, piecesOf([Buffer.from('tar')]))
  assert.equal(String(await bytesOf((await createFileSnapshotStore({ directory }).load('k')).tar)), 'tar')
  assert.deepEqual(await one.list('o'), [record('k')])
  assert.equal(statSync(directory).mode & 0o777, 0o700)
  for (const name of readdirSync(directory)) assert.equal(statSync(join(directory, name)).mode & 0o777, 0o600, name)
})

test('a file store needs a directory, and says at once what is wrong with it', () => {
  const file = join(root, 'a-file')
  writeFileSync(file, 'x')
  for (const make of [createFileLeaseStore, createFileSnapshotStore]) {
    for (const options of [undefined, {}, { directory: '' }, { directory: 5 }, { directory: root, other: 1 }, 'x']) {
      assert.throws(() => make(options), { code: 'CONFIG_INVALID', message: new RegExp(make.name || 'createFile') })
    }
    for (const directory of [file, join(file, 'below'), '/proc/none/such']) {
      assert.throws(
        () => make({ directory }),
        error => error.code === 'CONFIG_INVALID' && error.message.includes(directory),
      )
    }
  }
})

test('a torn lease is an error that names its file, never no lease', async () => {
  const directory = fresh()
  const store = createFileLeaseStore({ directory })
  await store.save(record('k'), null)
  const path = only(directory, '.lease')
  const whole = readFileSync(path)
  for (const bytes of [whole.subarray(0, whole.length / 2), Buffer.alloc(whole.length), Buffer.alloc(0)]) {
    writeFileSync(path, bytes)
    for (const call of [
      () => store.load('k'),
      () => store.save(record('k'), null),
      () => store.remove('k', 1),
      () => store.list('o'),
    ]) {
      const error = await failureOf(call())
      assert.deepEqual([error.code, error.message.includes(path)], ['CONFIG_INVALID', true])
    }
  }
})

test('a torn or altered snapshot is SNAPSHOT_INVALID, never an empty one', async () => {
  const directory = fresh()
  const store = createFileSnapshotStore({ directory })
  await store.save('k', meta, piecesOf([Buffer.alloc(100_000, 1)]))
  const path = only(directory, '.snapshot')
  const whole = readFileSync(path)
  const altered = Buffer.from(whole)
  altered[50_000] ^= 1
  const load = async () => bytesOf((await store.load('k')).tar)
  for (const bytes of [whole.subarray(0, 60_000), Buffer.alloc(0), altered]) {
    writeFileSync(path, bytes)
    const error = await failureOf(load())
    assert.deepEqual([error.code, error.message.includes(path)], ['SNAPSHOT_INVALID', true])
  }
  await store.save('k', meta, piecesOf([Buffer.from('new')]))
  assert.equal(String(await load()), 'new')
})

test('links in the places of files are not followed', async () => {
  const directory = fresh()
  await createFileLeaseStore({ directory }).save(record('k'), null)
  await createFileSnapshotStore({ directory }).save('k', meta, piecesOf([]))
  const target = join(root, 'target')
  writeFileSync(target, 'theirs')
  for (const ending of ['.lease', '.snapshot']) {
    const inside = { directory: fresh() }
    mkdirSync(inside.directory)
    symlinkSync(target, join(inside.directory, basename(only(directory, ending))))
    const leases = createFileLeaseStore(inside)
    const snapshots = createFileSnapshotStore(inside)
    const calls =
      ending === '.lease'
        ? [() => leases.load('k'), () => leases.save(record('k'), null)]
        : [() => snapshots.load('k'), () => snapshots.save('k', meta, piecesOf([]))]
    for (const call of calls) assert.equal((await failureOf(call())).code, 'CONFIG_INVALID')
  }
  assert.equal(readFileSync(target, 'utf8'), 'theirs')
})

test('64 MiB go in and out of a file store without growing memory', async () => {
  const store = createFileSnapshotStore({ directory: fresh() })
  const [piece, mark] = [Buffer.alloc(64 * 1024, 7), 4 * 1024 * 1024]
  /** The most memory in use at any of the marks, on the way in and on the way out. */
  const pass = async bytes => {
    let most = 0
    const passed = async size => {
      if (size % mark !== 0) return
      // Pieces that were read are the runtime's garbage, not the store's memory.
      most = Math.max(most, await memoryHeld())
    }
    async function* tar() {
      for (let size = piece.length; size <= bytes; size += piece.length) {
        yield piece
        await passed(size)
      }
    }
    await store.save('k', meta, tar())
    let size = 0
    for await (const found of (await store.load('k')).tar) await passed((size += found.length))
    assert.equal(size, bytes)
    return most
  }
  // The first has what the runtimes keep for themselves; then a sixteenth is to need as much as all.
  await pass(16 * mark)
  const little = await pass(mark)
  const growth = ((await pass(16 * mark)) - little) / 1024 / 1024
  assert.ok(growth <= 16, `${growth.toFixed(1)} MiB`)
})

test('a full disk is a LIMIT that names the file, and what was there stays', async () => {
  const directory = fresh()
  const store = createFileSnapshotStore({ directory })
  await store.save('k', meta, piecesOf([Buffer.from('before')]))
  const program = `
    const { createFileSnapshotStore } = await import(${JSON.stringify(new URL('../index.js', import.meta.url).href)})
    const store = createFileSnapshotStore({ directory: ${JSON.stringify(directory)} })
    async function* tar() {
      for (let n = 0; n < 64; n++) yield new Uint8Array(65_536)
    }
    const error = await store.save('k', ${JSON.stringify(meta)}, tar()).catch(error => error)
    console.log(JSON.stringify([error.code, error.message]))`
  // No file may be longer than 1 MiB: the kernel says so with the error of a file system's own largest file.
  const shell = 'trap "" XFSZ; ulimit -f 2048; exec "$0" "$@"'
  const flags = process.versions.bun ? ['-e', program] : ['--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync('sh', ['-c', shell, process.execPath, ...flags], { encoding: 'utf8' })
  assert.equal(stderr, '')
  const [code, message] = JSON.parse(stdout)
  assert.equal(code, 'LIMIT')
  assert.ok(message.startsWith(`Cannot write ${directory}/`) && message.includes('there is no room'), message)
  assert.equal(String(await bytesOf((await store.load('k')).tar)), 'before')
  assert.equal(readdirSync(directory).length, 1)
})

test('a run is kept and restored through file stores', async () => {
  const directory = fresh()
  const stores = () => ({
    leaseStore: createFileLeaseStore({ directory }),
    snapshotStore: createFileSnapshotStore({ directory }),
  })
  const first = environment({ ...stores(), ownerId: 'o' })
  const session = await first.acquire({ runId: 'r' })
  await session.writeFile('f', 'kept')
  await session.release({ status: 'waiting_approval' })
  // Another engine has no container of it: what is there comes from the snapshot.
  const second = environment({ ...stores(), ownerId: 'o' })
  const again = await second.acquire({ runId: 'r' })
  assert.equal((await again.readFile('f', { encoding: 'utf8' })).contents, 'kept')
  await again.release({ status: 'completed' })
  assert.deepEqual(
    readdirSync(directory).filter(name => !name.startsWith('.lock-')),
    [],
  )
  await Promise.all([first.close(), second.close()])
})
