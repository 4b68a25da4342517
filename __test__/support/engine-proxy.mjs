// A proxy in front of the engine, as an authorization plugin or a socket proxy is one: it passes everything through, raw
// streams too, and refuses or alters the requests that a test names. It speaks bytes, since Node's and Bun's HTTP servers
// treat a connection that is taken over differently.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { socketPath } from './live.mjs'

const HEAD_END = '\r\n\r\n'
const LENGTH = /^content-length: */i

/**
 * Starts one. A rule is `{ method, path, status, message, request, body, head, before, after, upstream }`: `method` (if any)
 * and `path` (a pattern, without version) say which requests it is for; it refuses them with `status` and `message`, lets
 * `request` change the parsed JSON of what is asked, `body` that of the reply and `head` the text of the reply's head, waits for
 * `before` until the engine gets them, which it does not where that is `false`, and for
 * `after` until the client gets the reply (`(path, method)` both), or passes what the client sends on a raw stream through
 * `upstream()`. Resolves to
 * `{ socketPath, log, streams, close }`: `log` has `METHOD path` of every request, `streams` the raw streams that are open.
 */
async function engineProxy(...rules) {
  const path = join(tmpdir(), `proxy-${randomUUID().slice(0, 8)}.sock`)
  const sockets = new Set()
  const proxy = { socketPath: path, log: [], streams: new Set(), rules }
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
    readHead(socket, (head, rest) => void answer(proxy, socket, head, rest))
  })
  await new Promise((resolve, reject) => server.once('error', reject).listen(path, resolve))
  proxy.close = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
    rmSync(path, { force: true })
  }
  return proxy
}

/** Uses a proxy with these rules, which is closed whatever comes. */
export async function behindProxy(rules, use) {
  const proxy = await engineProxy(...rules)
  try {
    return await use(proxy)
  } finally {
    await proxy.close()
  }
}

function readHead(socket, use) {
  let text = Buffer.alloc(0)
  const read = piece => {
    text = Buffer.concat([text, piece])
    const end = text.indexOf(HEAD_END)
    if (end < 0) return
    socket.off('data', read).pause()
    use(text.subarray(0, end).toString('latin1'), text.subarray(end + HEAD_END.length))
  }
  socket.on('data', read).on('end', () => text.includes(HEAD_END) || socket.end())
}

async function answer(proxy, socket, head, rest) {
  const [first, ...fields] = head.split('\r\n')
  const [method, url] = first.split(' ')
  const bare = url.replace(/^\/v1\.\d+/, '')
  proxy.log.push(`${method} ${bare}`)
  const rule = proxy.rules.find(one => (!one.method || one.method === method) && one.path.test(bare))
  if (rule?.status) {
    socket.resume().end(reply(rule.status, { message: rule.message ?? 'denied by policy' }))
    return
  }
  if ((await rule?.before?.(bare, method)) === false) return socket.destroy()
  const engine = connect({ path: socketPath, allowHalfOpen: true })
  engine.on('error', () => socket.destroy())
  socket.on('close', () => engine.destroy())
  const raw = fields.some(field => /^upgrade:/i.test(field))
  // One request for each connection, so that what follows its head can be passed on without being understood.
  let kept = raw ? fields : [...fields.filter(field => !/^connection:/i.test(field)), 'Connection: close']
  if (rule?.request) {
    const asked = rule.request(JSON.parse(await bodyOf(socket, kept, rest)))
    rest = Buffer.from(JSON.stringify(asked))
    kept = [...kept.filter(field => !LENGTH.test(field)), `Content-Length: ${rest.length}`]
  }
  // In HTTP/1.0 a reply that is to be altered comes without chunks.
  const sent = [`${method} ${url} HTTP/1.${rule?.body ? 0 : 1}`, ...kept].join('\r\n') + HEAD_END
  // In one piece: an engine that answers at once has closed by the time of a second.
  engine.write(Buffer.concat([Buffer.from(sent, 'latin1'), rest]))
  if (raw && rule?.upstream) socket.pipe(rule.upstream()).pipe(engine)
  else socket.pipe(engine)
  if (raw) {
    proxy.streams.add(socket)
    socket.on('close', () => proxy.streams.delete(socket))
  }
  if (rule?.body) void alter(engine, rule.body, socket)
  else if (rule?.head) readHead(engine, (head, rest) => passOn(engine, rule.head(head), rest, socket))
  else if (rule?.after) engine.once('data', first => void delay(engine, first, rule.after(bare, method), socket))
  else engine.pipe(socket)
}

/** The body of a request that says how long it is; nothing of it is passed on. */
async function bodyOf(socket, fields, first) {
  const length = Number(fields.find(field => LENGTH.test(field)).replace(LENGTH, ''))
  const pieces = [first]
  let missing = length - first.length
  while (missing > 0) {
    await once(socket, 'readable')
    for (let piece = socket.read(); piece; piece = socket.read()) {
      pieces.push(piece)
      missing -= piece.length
    }
  }
  return Buffer.concat(pieces).toString()
}

async function delay(engine, first, until, socket) {
  engine.pause()
  await until
  socket.write(first)
  engine.pipe(socket)
}

function passOn(engine, head, rest, socket) {
  socket.write(Buffer.concat([Buffer.from(head + HEAD_END, 'latin1'), rest]))
  engine.pipe(socket)
}

async function alter(engine, change, socket) {
  const chunks = []
  for await (const chunk of engine) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  const end = text.indexOf(HEAD_END)
  const status = Number(text.split(' ')[1])
  const body = JSON.parse(text.slice(end + HEAD_END.length))
  socket.end(reply(status, status < 300 ? change(body) : body))
}

function reply(status, json) {
  const body = JSON.stringify(json)
  const fields = ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close']
  return [`HTTP/1.1 ${status} Proxied`, ...fields].join('\r\n') + HEAD_END + body
}
