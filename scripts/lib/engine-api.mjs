// The few Engine API calls that the scripts need, over a unix socket. Deliberately not the product's own client:
// what prepares the tests must not depend on what they test.

import { createReadStream } from 'node:fs'
import { request } from 'node:http'
import { Readable } from 'node:stream'

const PING_TIMEOUT_MS = 2_000

/** Whether an engine answers on this socket. */
export async function answers(socketPath) {
  try {
    const { status, body } = await call(socketPath, 'GET', '/_ping', { timeoutMs: PING_TIMEOUT_MS })
    return status === 200 && body === 'OK'
  } catch {
    return false
  }
}

/** Whether the engine has this image. */
export async function hasImage(socketPath, name) {
  const { status } = await call(socketPath, 'GET', `/images/${name}/json`)
  return status === 200
}

/** Makes an image from the tar of a root file system. */
export async function importImage(socketPath, name, tarPath) {
  // With the tag in `repo`: Podman does not look at `tag` when it imports.
  const query = new URLSearchParams({ fromSrc: '-', repo: name })
  const options = { body: createReadStream(tarPath), type: 'application/x-tar' }
  const text = await must(`importing ${name}`, socketPath, 'POST', `/images/create?${query}`, options)
  // Progress is already on its way with status 200 when an import fails: the error is in one of its lines.
  if (text.includes('"error"')) throw new Error(`importing ${name} failed: ${text}`)
}

/** Makes image `name` of image `from` with another configuration, by way of a container that is never started. */
export async function configureImage(socketPath, from, name, config) {
  const options = json({ Image: from, ...config })
  const created = await must(`configuring ${name}`, socketPath, 'POST', '/containers/create', options)
  const { Id } = JSON.parse(created)
  try {
    const query = new URLSearchParams({ container: Id, ...named(name) })
    await must(`committing ${name}`, socketPath, 'POST', `/commit?${query}`, json({}))
  } finally {
    await must(`removing ${Id}`, socketPath, 'DELETE', `/containers/${Id}?force=1&v=1`)
  }
}

/** Gives an image of the engine a second name. */
export async function tagImage(socketPath, name, other) {
  const query = new URLSearchParams(named(other))
  await must(`tagging ${name} as ${other}`, socketPath, 'POST', `/images/${name}/tag?${query}`)
}

/** One call; resolves to `{ status, body }`, the body as text. A request `body` is a readable stream of `type`. */
export function call(socketPath, method, path, { body, type, timeoutMs } = {}) {
  return new Promise((resolve, reject) => {
    const headers = type ? { 'content-type': type } : {}
    const sent = request({ socketPath, method, path, headers, timeout: timeoutMs }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => (text += chunk))
      response.on('end', () => resolve({ status: response.statusCode, body: text }))
      response.on('error', reject)
    })
    // A connection that is used a second time brings a limit of Node's own, which an import outlasts.
    if (timeoutMs)
      sent.on('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer within ${timeoutMs} ms`)))
    sent.on('error', reject)
    if (!body) return sent.end()
    body.on('error', error => sent.destroy(error))
    return body.pipe(sent)
  })
}

async function must(what, socketPath, method, path, options) {
  const { status, body } = await call(socketPath, method, path, options)
  if (status >= 300) throw new Error(`${what} failed: ${method} ${path} answered ${status}: ${body.trim()}`)
  return body
}

function json(value) {
  return { body: Readable.from([JSON.stringify(value)]), type: 'application/json' }
}

function named(name) {
  const [repo, tag] = name.split(':')
  return { repo, tag }
}
