// A worker that uses the package, for the tests that end workers.
import { parentPort, workerData } from 'node:worker_threads'
import * as api from '../../index.js'

const { socketPath, ownerId, image, what, run } = workerData
const environment = api.createDockerSandboxEnvironment({
  socketPath,
  ownerId,
  image,
  pull: 'never',
  shell: 'allow',
  workspace: { id: 'w' },
  limits: { cpus: 2 },
  onEvent: () => undefined,
})
const session = await environment.acquire({ runId: run })

if (what === 'whole') {
  await session.writeFile('f', 'x')
  await session.exec({ command: 'cat', args: ['f'] })
  await session.release({ status: 'completed' })
  await environment.close()
} else {
  const ignore = () => undefined
  for (let n = 0; n < 3; n++) session.exec({ command: 'sleep', args: ['20'] }).catch(ignore)
  for (let n = 0; n < 3; n++) session.list().catch(ignore)
  session.writeFile('f', new Uint8Array(1_000_000)).catch(ignore)
  environment.acquire({ runId: `${run}-other` }).catch(ignore)
}
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows, not of ports
parentPort.postMessage(what)
