// The floor: what the engine's attached stream takes by itself, to a shell in a container with the same limits and back, with
// nothing of this package on either end.

import Docker from 'dockerode'
import { STREAM_BYTES } from './work.mjs'
import { profile } from './peer.mjs'

/** Bytes that the engine puts before each piece of output (Engine API, "Stream format"). */
const HEADER_BYTES = 8
const DD = 'dd bs=64k count=512 iflag=fullblock 2>/dev/null'

/** Floors of the work that one request on the stream can be. */
export async function startFloor({ socketPath, image, cpus }) {
  const docker = new Docker({ socketPath })
  const echo = await attached(docker, image, cpus, 'cat')
  const command = await attached(docker, image, cpus, 'while read -r line; do /bin/true; echo; done')
  const into = await attached(docker, image, cpus, `while ${DD} >/dev/null && echo; do :; done`)
  const out = await attached(docker, image, cpus, `${DD} </dev/zero >g; while read -r line; do cat g; done`)
  const large = Buffer.alloc(STREAM_BYTES)
  return {
    roundTrip: () => echo.asked(Buffer.from('x\n'), 2),
    exec: () => command.asked(Buffer.from('\n'), 1),
    into: () => into.asked(large, 1),
    out: () => out.asked(Buffer.from('\n'), STREAM_BYTES),
    stop: () => Promise.all([echo, command, into, out].map(({ stop }) => stop())),
  }
}

/** A container whose process 1 is a shell with this script, and its stream. */
async function attached(docker, image, cpus, script) {
  const streams = { OpenStdin: true, AttachStdin: true, AttachStdout: true, AttachStderr: false }
  const made = await docker.createContainer({
    ...profile(image, cpus),
    ...streams,
    Entrypoint: ['/bin/sh', '-c', script],
  })
  const stream = await made.attach({ stream: true, stdin: true, stdout: true, hijack: true })
  await made.start()
  const [heard, stop] = [reader(stream), () => made.remove({ force: true, v: true })]
  return {
    stop,
    async asked(request, bytes) {
      const answered = heard(bytes)
      stream.write(request)
      await answered
    },
  }
}

/** Counts bytes of output, without what the engine puts between them. */
function reader(stream) {
  let [left, inPiece, head, done] = [0, 0, Buffer.alloc(0), undefined]
  stream.on('data', data => {
    let rest = data
    while (rest.length > 0) {
      if (inPiece === 0) {
        const more = rest.subarray(0, HEADER_BYTES - head.length)
        head = Buffer.concat([head, more])
        rest = rest.subarray(more.length)
        if (head.length < HEADER_BYTES) return
        inPiece = head.readUInt32BE(4)
        head = Buffer.alloc(0)
      }
      const taken = Math.min(inPiece, rest.length)
      inPiece -= taken
      left -= taken
      rest = rest.subarray(taken)
    }
    if (left <= 0) done?.()
  })
  return bytes => {
    left = bytes
    return new Promise(resolve => (done = resolve))
  }
}
