// What the long proofs share: an environment on the racer's image, commands behind the product's back, figures, and what
// may be left after each proof.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach } from 'node:test'
import { RACER, engine, eventually, lab, socketPath } from '../../support/live.mjs'

export { RACER, engine, eventually, socketPath }
export const MIB = 2 ** 20
export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** As `lab`, on the racer's image, with a look after each test at what it left. */
export function room() {
  const { client, containers, environment, ownerId } = lab()
  const resident = (options = {}) =>
    environment({ image: RACER, transport: 'resident', tmp: { sizeMb: 8 }, ...options })
  let before
  beforeEach(async () => {
    before = await standing()
  })
  afterEach(async () => {
    // Removed all the same, for the proofs that follow.
    const left = await containers()
    for (const { Id } of left) await client.removeContainer(Id)
    assert.deepEqual(left, [], 'containers are left')
    assert.deepEqual(added(before, await standing()), [], 'this is left')
  })
  return { client, containers, environment: resident, ownerId }
}

/** Names of what a run may leave. */
async function standing() {
  const files = readdirSync(tmpdir()).filter(name => /zhivex|^sandbox-|^proxy-|^soak-/.test(name))
  return { ...(await onEngine()), 'temporary files': files }
}

/** Names of what is on the engine, but for the one volume that all share. */
export async function onEngine() {
  const volumes = ((await engine('GET', '/volumes')).Volumes ?? []).filter(
    ({ Labels }) => !Labels?.['zhivex.supervisor'],
  )
  return {
    containers: (await engine('GET', '/containers/json?all=1')).map(({ Id }) => Id),
    networks: (await engine('GET', '/networks')).map(({ Name }) => Name),
    images: (await engine('GET', '/images/json?all=1')).map(({ Id }) => Id),
    volumes: volumes.map(({ Name }) => Name),
  }
}

/** What is there now and was not before, each with what it is. */
export const added = (before, now) =>
  Object.entries(now).flatMap(([what, names]) =>
    names.filter(name => !before[what].includes(name)).map(name => `${what}: ${name}`),
  )

/**
 * Runs a command in a container as its user, not through the product and so beyond its reach. `line` is told each line of
 * its output. Resolves when its output ends, however that is; `started` when it was started.
 */
export function behind(container, command, line = () => undefined) {
  const options = {
    Cmd: command,
    User: '65534:65534',
    WorkingDir: '/workspace',
    AttachStdout: true,
    AttachStderr: true,
  }
  const created = engine('POST', `/containers/${container}/exec`, { ...options, Tty: true })
  let tell
  const started = new Promise(resolve => (tell = resolve))
  const ended = created.then(({ Id }) => output(Id, line, tell)).finally(tell)
  return { started, ended }
}

// With a terminal the stream is the bare text.
function output(id, line, tell) {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify({ Detach: false, Tty: true })
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const sent = request({ socketPath, method: 'POST', path: `/exec/${id}/start`, headers }, response => {
      tell()
      let text = ''
      const end = () => {
        if (text) line(text)
        resolve()
      }
      response.setEncoding('utf8').on('data', piece => {
        const lines = (text + piece).split(/\r?\n/)
        text = lines.pop()
        lines.forEach(line)
      })
      // The container may go while it runs.
      response.on('end', end).on('error', end)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** The result of a promise; one that takes longer than `ms` is a failed proof. */
export async function within(ms, what, promise) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `${what}: hangs, ${ms} ms are over` })), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Counts of words. */
export class Tally {
  #counts = new Map()
  add(word, count = 1) {
    this.#counts.set(word, this.of(word) + count)
  }
  of(word) {
    return this.#counts.get(word) ?? 0
  }
  get words() {
    return [...this.#counts.keys()]
  }
  get total() {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
  }
  toString() {
    return [...this.#counts].map(([word, count]) => `${word} ${count}`).join(', ')
  }
}

/** The middle and the largest of some numbers, rounded. */
export function spread(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b)
  return `p50 ${Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0)}, most ${Math.round(sorted.at(-1) ?? 0)}`
}
