// A process that is killed at a step. It says each step of its stores before it takes it and after, and waits for a word
// each time; the steps at the engine are seen by a proxy before that. Each line that it reads is a JSON array, a word and
// what that needs; it answers each with one line, a JSON array too.
import { createInterface } from 'node:readline'
import { createDockerSandboxEnvironment, createFileLeaseStore, createFileSnapshotStore } from '../../../index.js'

const { directory, ...options } = JSON.parse(process.argv[2])
const say = (...words) => console.log(JSON.stringify(words))
let [stepping, go, session] = [false, undefined, undefined]

async function step(name) {
  if (!stepping) return
  say('step', name)
  await new Promise(resolve => (go = resolve))
}

/** A store whose every call is two steps, and each piece of a tar that it is given one. */
function stepped(name, store, methods) {
  const wrap =
    method =>
    async (...args) => {
      await step(`before ${name}.${method}`)
      const result = await store[method](...args.map(watched))
      await step(`after ${name}.${method}`)
      return result
    }
  return Object.fromEntries(methods.map(method => [method, wrap(method)]))
}

const watched = value => (value?.[Symbol.asyncIterator] ? pieces(value) : value)

async function* pieces(tar) {
  for await (const piece of tar) {
    yield piece
    await step('in snapshotStore.save')
  }
}

const told = { counts: {}, listen: () => undefined }

const environment = createDockerSandboxEnvironment({
  ...options,
  onEvent: ({ type }) => {
    told.counts[type] = (told.counts[type] ?? 0) + 1
    told.listen()
  },
  leaseStore: stepped('leaseStore', createFileLeaseStore({ directory }), ['load', 'save', 'remove', 'list']),
  snapshotStore: stepped('snapshotStore', createFileSnapshotStore({ directory }), ['load', 'save', 'remove']),
})

/** Waits until an event of this type came so many times. */
async function event(type, times) {
  while ((told.counts[type] ?? 0) < times) await new Promise(resolve => (told.listen = resolve))
}

const DO = {
  event,
  acquire: async runId => void (session = await environment.acquire({ runId })),
  write: async path => void (await session.writeFile(path, path)),
  snapshot: async () => void (await session.snapshot()),
  release: async status => void (await session.release({ status })),
  sweep: async () => (await environment.sweep()).failures,
}

for await (const line of createInterface({ input: process.stdin })) {
  const [word, ...rest] = JSON.parse(line)
  if (word === 'go') go()
  else if (word === 'steps') [stepping] = rest
  else {
    // Not awaited: words that let it go on come meanwhile.
    void DO[word](...rest).then(
      result => say('done', result ?? null),
      error => say('failed', error.name, error.code ?? null, error.message),
    )
  }
}
