// The peer: dockerode doing the same work with the Engine API, as a careful user of it would.

import { createReadStream, createWriteStream } from 'node:fs'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import Docker from 'dockerode'
import { extract, pack } from 'tar-stream'
import { timed } from './report.mjs'

/** What a container is created with: the limits that this package's have. */
export const profile = (image, cpus) => ({
  Image: image,
  User: '65534:65534',
  WorkingDir: '/workspace',
  HostConfig: {
    NetworkMode: 'none',
    ReadonlyRootfs: true,
    Memory: 256 << 20,
    MemorySwap: 256 << 20,
    NanoCpus: cpus * 1e9,
    PidsLimit: 64,
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges:true'],
    IpcMode: 'none',
    Tmpfs: { '/workspace': 'rw,nosuid,nodev,noexec,size=104857600,uid=65534,gid=65534,mode=0700' },
  },
})

/** A container with the same limits, and what is measured in it. */
export async function startPeer({ socketPath, image, cpus }) {
  const docker = new Docker({ socketPath })
  const create = () =>
    docker.createContainer({
      ...profile(image, cpus),
      Entrypoint: ['/bin/sh', '-c', 'while :; do sleep 3600; done'],
    })
  const container = await create()
  await container.start()
  const exec = (cmd, input) => execIn(container, cmd, input)

  /** Runs a command to its end, with `input` on its standard input; its standard output, or what `take` makes of it. */
  async function execIn(container, cmd, input, take = buffer) {
    const started = await container.exec({
      Cmd: cmd,
      AttachStdin: input !== undefined,
      AttachStdout: true,
      AttachStderr: true,
    })
    const stream = await started.start({ hijack: true, stdin: input !== undefined })
    const [out, err] = [new PassThrough(), new PassThrough()]
    docker.modem.demuxStream(stream, out, err)
    const stdout = take(out)
    err.resume()
    if (input !== undefined) (Buffer.isBuffer(input) ? Readable.from([input]) : input).pipe(stream)
    await new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject))
    out.end()
    const { ExitCode } = await started.inspect()
    if (ExitCode !== 0) throw new Error(`${cmd.join(' ')} ended with ${ExitCode}`)
    return stdout
  }

  return {
    run: exec,
    exec: () => exec(['/bin/true']),
    read: async path => {
      // The symbolic link check that a sandbox cannot do without.
      await exec(['/usr/bin/realpath', path])
      return exec(['/bin/cat', path])
    },
    write: async (path, contents) => {
      await exec(['/usr/bin/realpath', '/workspace'])
      await exec(['/bin/sh', '-c', 'cat >"$1"', 'sh', path], contents)
    },
    list: path => exec(['/usr/bin/find', path, '-maxdepth', '1', '-exec', 'stat', '-c', '%f %s %n', '{}', '+']),
    // As the archive calls cannot reach a tmpfs, by the container's own tar.
    putTar: async (folder, name, contents) => {
      const packed = pack()
      packed.entry({ name, mode: 0o644 }, contents)
      packed.finalize()
      await exec(['/bin/tar', '-x', '-f', '-', '-C', folder], packed)
    },
    getTar: async (folder, name) => {
      await exec(['/usr/bin/realpath', `${folder}/${name}`])
      const unpacked = extract()
      const contents = new Promise((resolve, reject) => {
        unpacked.on('entry', (_header, stream, next) => buffer(stream).then(resolve, reject).finally(next))
        unpacked.on('error', reject)
      })
      unpacked.end(await exec(['/bin/tar', '-c', '-f', '-', '-C', folder, name]))
      return contents
    },
    /** One more container, and the command in it. */
    another: async () => {
      const made = await create()
      await made.start()
      return { exec: () => execIn(made, ['/bin/true']), remove: () => made.remove({ force: true, v: true }) }
    },
    /** What `script` made, to a file and into a new container; how long both take in milliseconds. */
    roundTrip: async (file, script) => {
      let made = await create()
      await made.start()
      await execIn(made, ['/bin/sh', '-c', script])
      const tar = ['/bin/tar', '-c', '-f', '-', '-C', '/workspace', '.']
      const out = await timed(() =>
        execIn(made, tar, undefined, stdout => pipeline(stdout, createWriteStream(file, { flush: true }))).then(
          () => undefined,
        ),
      )
      await made.remove({ force: true, v: true })
      const back = await timed(async () => {
        made = await create()
        await made.start()
        await execIn(made, ['/bin/tar', '-x', '-f', '-', '-C', '/workspace'], createReadStream(file))
      })
      await made.remove({ force: true, v: true })
      return out + back
    },
    createAndStart: async () => {
      const made = await create()
      await made.start()
      return () => made.remove({ force: true, v: true })
    },
    stop: () => container.remove({ force: true, v: true }),
  }
}
