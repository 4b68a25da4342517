// A process that acquires runs when it is told to. Each line that it reads is a JSON array, a word and what that needs; it
// answers each with one line, a JSON array too. `options` come as its argument.
import { createInterface } from 'node:readline'
import { createDockerSandboxEnvironment, createFileLeaseStore, createFileSnapshotStore } from '../../../index.js'

const { directory, ...options } = JSON.parse(process.argv[2])
const environment = createDockerSandboxEnvironment({
  ...options,
  leaseStore: createFileLeaseStore({ directory }),
  snapshotStore: createFileSnapshotStore({ directory }),
})
let session

const DO = {
  /** At a moment that all were told, to the millisecond: a timer of its own is too late by some. */
  async acquire(runId, moment) {
    while (Date.now() < moment) if (moment - Date.now() > 5) await new Promise(resolve => setTimeout(resolve, 1))
    try {
      session = await environment.acquire({ runId })
      return ['won']
    } catch (error) {
      return ['lost', error.name, error.code ?? null, error.message]
    }
  },
  async write(path, contents) {
    await session.writeFile(path, contents)
    return ['written']
  },
  async contents() {
    const { entries } = await session.list()
    const read = async ({ path }) => [path, (await session.readFile(path, { encoding: 'utf8' })).contents]
    return ['contents', Object.fromEntries(await Promise.all(entries.map(read)))]
  },
  async release(status) {
    await session.release({ status })
    return ['released']
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...rest] = JSON.parse(line)
  const answer = await DO[word](...rest).catch(error => ['failed', `${error.name}: ${error.message}`])
  console.log(JSON.stringify(answer))
}
await environment.close()
