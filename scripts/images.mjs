// Test images, made here and imported into an engine: nothing is pulled.
//
//   node scripts/images.mjs SOCKET [NAME...]   loads them (all by default) into the private engine on that socket

import { fileURLToPath } from 'node:url'
import { configureImage, hasImage, importImage, tagImage } from './lib/engine-api.mjs'
import { clientsTar } from './lib/clients-rootfs.mjs'
import { busyboxTar, debianTar, distrolessTar, hostileTar, racerTar, scratchTar } from './lib/rootfs.mjs'

/** What each image is made from: its root file system, its configuration if it has any, a second name. */
export const IMAGES = {
  // README's examples use the default image, which cannot be pulled offline: in a private engine, and only there, this
  // one stands in under its name. It is busybox as well, with its applets in the same folders.
  busybox: { tar: busyboxTar, also: 'alpine:3.21' },
  debian: { tar: debianTar },
  hostile: { tar: hostileTar, config: hostileConfig() },
  scratch: { tar: scratchTar },
  distroless: { tar: distrolessTar },
  racer: { tar: racerTar },
  clients: { tar: clientsTar },
}

/** Loads `names` of `IMAGES` as `sandbox-test/NAME:latest`. For a private engine: one image gets a public image's name. */
export async function loadImages(socketPath, names) {
  for (const name of names) {
    const recipe = IMAGES[name]
    if (!recipe) throw new Error(`There is no test image ${name}; there are ${Object.keys(IMAGES).join(', ')}`)
    const full = `sandbox-test/${name}:latest`
    if (!(await hasImage(socketPath, full))) await make(socketPath, name, full, recipe)
    if (recipe.also) await tagImage(socketPath, full, recipe.also)
  }
}

async function make(socketPath, name, full, { tar, config }) {
  const imported = config ? `sandbox-test/${name}:plain` : full
  await importImage(socketPath, imported, await tar())
  if (config) await configureImage(socketPath, imported, full, config)
}

// Everything that an image can bring in by the back door: a first process of its own, writable disk behind a read-only
// root, commands that the engine runs, a search path through the workspace, a preloaded library, labels like ours.
function hostileConfig() {
  return {
    Entrypoint: ['/bin/evil'],
    Cmd: ['--serve'],
    Volumes: { '/data': {} },
    WorkingDir: '/data',
    User: 'root',
    Env: ['PATH=/workspace/bin:relative:/bin:/usr/bin', 'LD_PRELOAD=/workspace/x.so', 'SECRET=1'],
    Healthcheck: { Test: ['CMD', '/bin/touch', '/data/health'], Interval: 1e9, Timeout: 1e9, Retries: 1 },
    ExposedPorts: { '80/tcp': {} },
    StopSignal: 'SIGUSR1',
    Labels: {
      'zhivex.sandbox': '1',
      'zhivex.sandbox.owner': 'somebody',
      'zhivex.sandbox.run': 'forged',
      'zhivex.sandbox.fingerprint': `sha256:${'0'.repeat(64)}`,
    },
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [socketPath, ...names] = process.argv.slice(2)
  await loadImages(socketPath, names.length > 0 ? names : Object.keys(IMAGES))
}
