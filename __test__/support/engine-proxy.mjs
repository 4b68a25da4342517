// A proxy in front of the engine, as an authorization plugin or a socket proxy is one: it passes everything through, raw
// streams too, and refuses or alters the requests that a test names.
import { randomUUID } from 'node:crypto'
import { Agent, createServer, request } from 'node:http'
import { connect } from 'node:net'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { socketPath } from './live.mjs'

/**
 * Starts one. A rule is `{ method, path, status, message, body, stream, before }`: `method` and `path` (a pattern, without version)
 * say which requests it is for; it refuses them with `status`, or lets `body` change the parsed JSON of the reply. `before`
 * is called first and may wait. Resolves to `{ socketPath, log, streams, close }`: `log` has `METHOD path` of every request,
 * `streams` the raw streams that are open.
 */
export async function engineProxy(...rules) {
  const path = join(tmpdir(), `proxy-${randomUUID().slice(0, 8)}.sock`)
  const proxy = { socketPath: path, log: [], streams: new Set(), rules, agent: new Agent({ keepAlive: true }) }
  const server = createServer()
  server.on('request', (incoming, reply) => void pass(proxy, incoming, reply))
  server.on('upgrade', (incoming, socket, head) => void hijack(proxy, incoming, socket, head))
  await new Promise((resolve, reject) => server.once('error', reject).listen(path, resolve))
  proxy.close = async () => {
    for (const stream of proxy.streams) stream.destroy()
    server.closeAllConnections()
    proxy.agent.destroy()
    await new Promise(resolve => server.close(resolve))
    rmSync(path, { force: true })
  }
  return proxy
}

const bare = url => url.replace(/^\/v1\.\d+/, '')

function ruleFor(proxy, { method, url }) {
  proxy.log.push(`${method} ${bare(url)}`)
  return proxy.rules.find(rule => rule.method === method && rule.path.test(bare(url)))
}

const refusal = ({ message = 'denied by policy' }) => JSON.stringify({ message })

async function pass(proxy, incoming, reply) {
  const rule = ruleFor(proxy, incoming)
  await rule?.before?.()
  if (rule?.status) {
    incoming.resume()
    reply.writeHead(rule.status, { 'content-type': 'application/json' }).end(refusal(rule))
    return
  }
  const { method, url: path, headers } = incoming
  const sent = request({ socketPath, method, path, headers, agent: proxy.agent }, answer => {
    answer.on('error', () => reply.destroy())
    if (rule?.body) return void alter(answer, rule.body, reply)
    reply.writeHead(answer.statusCode, answer.headers)
    reply.flushHeaders()
    answer.pipe(reply)
  })
  reply.on('close', () => sent.destroy())
  // An engine that has answered may close without having read all; what it answered is passed on.
  sent.on('error', () => sent.res ?? reply.destroy())
  incoming.pipe(sent)
}

async function alter(answer, change, reply) {
  const chunks = []
  for await (const chunk of answer) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  const body = answer.statusCode < 300 ? JSON.stringify(change(JSON.parse(text))) : text
  reply.writeHead(answer.statusCode, { 'content-type': 'application/json' }).end(body)
}

// The request is written again as it came, with its body, which is in `head` or still on its way.
async function hijack(proxy, incoming, socket, head) {
  const rule = ruleFor(proxy, incoming)
  await rule?.before?.()
  socket.on('error', () => {})
  if (rule?.status) {
    const body = refusal(rule)
    socket.end(
      `HTTP/1.1 ${rule.status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    return
  }
  const engine = connect({ path: socketPath, allowHalfOpen: true })
  engine.on('error', () => socket.destroy())
  const fields = []
  for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
    fields.push(`${incoming.rawHeaders[at]}: ${incoming.rawHeaders[at + 1]}`)
  }
  engine.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
  engine.write(head)
  proxy.streams.add(socket)
  const over = () => {
    proxy.streams.delete(socket)
    socket.destroy()
    engine.destroy()
  }
  engine.on('close', over)
  socket.on('close', over)
  socket.pipe(engine)
  engine.pipe(socket)
}
