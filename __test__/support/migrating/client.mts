// A program that was written for version 0.2.1: its Docker client, by its declarations, and each error that it documents.
import { SandboxError, createNodeDockerClient } from '@zhivex-ai/sandbox-docker'
import type {
  DockerClient,
  DockerContainerInspection,
  DockerCreateSpec,
  DockerExecOptions,
  DockerExecResult,
  DockerListedContainer,
  DockerPathStat,
  NodeDockerClientOptions,
} from '@zhivex-ai/sandbox-docker'

const options: NodeDockerClientOptions = process.env.SOCKET ? { socketPath: process.env.SOCKET } : {}
const docker: DockerClient = createNodeDockerClient(options)
const label = `test.migrating=${process.pid}`

const spec = (changes: Partial<DockerCreateSpec> = {}): DockerCreateSpec => ({
  image: 'alpine:3.21',
  user: '65534:65534',
  workingDir: '/workspace',
  env: ['GREETING=hello'],
  cmd: ['sleep', '600'],
  networkMode: 'none',
  readonlyRootfs: true,
  memoryBytes: 256 * 1024 * 1024,
  nanoCpus: 1_000_000_000,
  pidsLimit: 64,
  tmpfs: { '/workspace': 'rw,size=16m,uid=65534,gid=65534,mode=0700' },
  labels: { 'test.migrating': String(process.pid) },
  init: true,
  ...changes,
})

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

/** What such a program does with an error: it looks at the class, then at the code. */
async function outcome(call: Promise<unknown>): Promise<string> {
  try {
    await call
    return 'done'
  } catch (error) {
    if (!(error instanceof SandboxError)) return `not ours: ${error}`
    const sound = error instanceof Error && error.name === 'SandboxError' && error.message !== ''
    return sound ? error.code : `malformed ${error.code}`
  }
}

async function inContainer(id: string) {
  const run = (cmd: string[], changes: Partial<DockerExecOptions> = {}): Promise<DockerExecResult> =>
    docker.exec(id, {
      cmd,
      user: '65534:65534',
      workingDir: '/workspace',
      timeoutMs: 10_000,
      maxOutputBytes: 1024,
      ...changes,
    })

  const inspected: DockerContainerInspection = await docker.inspectContainer(id)
  const { NanoCpus, PidsLimit, Memory } = inspected.HostConfig ?? {}
  console.log('inspect', inspected.State.Running, inspected.State.Status, NanoCpus, PidsLimit, Memory)
  const listed: DockerListedContainer[] = await docker.listContainers(label)
  console.log(
    'list',
    listed.map(found => found.Id === id && Object.keys(found.Labels).includes('test.migrating')).join(),
  )

  const said = await run(['sh', '-c', 'echo $GREETING $MORE; echo oops >&2; exit 3'], { env: ['MORE=more'] })
  console.log('exec', said.exitCode, text(said.stdout).trim(), text(said.stderr).trim(), said.truncated, said.timedOut)
  // Its time runs out long after it has written.
  const late = await run(['sh', '-c', 'echo out; echo err >&2; sleep 61'], { timeoutMs: 3_000, marker: 'sleep 61' })
  console.log('late', late.exitCode, text(late.stdout).trim(), text(late.stderr).trim(), late.timedOut, late.truncated)
  const long = await run(['sh', '-c', 'yes'], { marker: 'yes' })
  console.log('long', long.exitCode, long.stdout.byteLength, long.truncated, long.timedOut)
  const endless = ['sh', '-c', 'while echo x; do :; done']
  const busy = await run(endless, { timeoutMs: 1_000, maxOutputBytes: 1024 ** 3, marker: 'while echo' })
  console.log('busy', busy.exitCode, busy.stdout.byteLength > 0, busy.truncated, busy.timedOut)
  const marked = (changes: Partial<DockerExecOptions>) => run(['sh', '-c', 'echo ${#ZHIVEX_EXEC_ID}'], changes)
  const [mark, none] = [await marked({}), await marked({ skipTerminate: true })]
  console.log('mark', text(mark.stdout).trim(), text(none.stdout).trim())
  const nobody = { cmd: ['true'], workingDir: '/', timeoutMs: 1_000, maxOutputBytes: 1 } as DockerExecOptions
  console.log('no user', await outcome(docker.exec(id, nobody)))
  const controller = new AbortController()
  setTimeout(() => controller.abort(), 300)
  console.log('abort', await outcome(run(['sleep', '62'], { signal: controller.signal, marker: 'sleep 62' })))
  const left = await run(['sh', '-c', 'grep -la "sleep.6[12]" /proc/[0-9]*/cmdline | wc -l'])
  console.log('left', text(left.stdout).trim())

  await run(['sh', '-c', 'mkdir d; printf content >f; ln -s f link; ln -s /etc/passwd out'])
  const { tar, stat }: { tar: Uint8Array; stat: DockerPathStat } = await docker.getArchive(id, '/workspace/f')
  console.log('getArchive', tar.byteLength % 512, stat.name, stat.size, stat.mode.toString(8), stat.linkTarget === '')
  console.log('link', (await docker.getArchive(id, '/workspace/link')).stat.linkTarget)
  await docker.putArchive(id, '/workspace/d', tar)
  console.log('putArchive', text((await run(['cat', 'd/f'])).stdout))
  console.log('realpath', await docker.realpath(id, '/workspace/link'), await docker.realpath(id, '/workspace/out'))

  console.log('no path', await outcome(docker.getArchive(id, '/workspace/none')))
  console.log('no single path', await outcome(docker.getArchive(id, '/workspace/..')))
  console.log('no absolute path', await outcome(docker.realpath(id, 'workspace')))
  console.log('no room', await outcome(docker.getArchive(id, '/workspace/f', 100)))
  console.log('no tar', await outcome(docker.putArchive(id, '/workspace', new Uint8Array([1, 2, 3]))))

  const { Id: image } = await docker.commitContainer(id, 'test-migrating', String(process.pid), { kept: 'yes' })
  console.log('commit', image.startsWith('sha256:'))
  await docker.removeImage(image)
  console.log('no image', await outcome(docker.removeImage(image)))
  await docker.killContainer(id)
  await docker.removeContainer(id)
  console.log('no container', await outcome(docker.inspectContainer(id)))
}

console.log('kind', docker.kind)
console.log('version', await outcome(createNodeDockerClient({ ...options, apiVersion: 'v1.41' }).listContainers(label)))
console.log(
  'no engine',
  await outcome(createNodeDockerClient({ socketPath: '/nowhere/docker.sock' }).listContainers(label)),
)
console.log('image unknown', await outcome(docker.createContainer(spec({ image: 'test/nothing:none' }))))
const { Id } = await docker.createContainer(spec())
console.log(
  'not started',
  await outcome(docker.exec(Id, { cmd: ['true'], user: '', workingDir: '/', timeoutMs: 5_000, maxOutputBytes: 1 })),
)
await docker.startContainer(Id)
await inContainer(Id).finally(() => docker.removeContainer(Id).catch(() => undefined))
const network = await docker.createNetwork(`test-migrating-${process.pid}`)
console.log('network', typeof network.gateway)
await docker.removeNetwork(network.Id)
console.log('no network', await outcome(docker.removeNetwork(network.Id)))
