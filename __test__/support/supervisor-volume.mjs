// The volume that the supervisor is in, made, changed and looked at behind the product's back.
import assert from 'node:assert/strict'
import { createNodeDockerClient } from '../../index.js'
import { BUSYBOX, engine, socketPath } from './live.mjs'
import { END, entry } from './ustar.mjs'

const client = createNodeDockerClient({ socketPath })

/** Names of the supervisors' volumes that the engine has. */
export async function supervisors() {
  const names = ((await engine('GET', '/volumes')).Volumes ?? []).map(({ Name }) => Name)
  return names.filter(name => name.startsWith('zhivex-supervisor-'))
}

/** Names of the containers through which one is being filled. */
export async function fillers() {
  const filters = encodeURIComponent(JSON.stringify({ label: ['zhivex.supervisor=1'] }))
  return (await engine('GET', `/containers/json?all=1&filters=${filters}`)).flatMap(({ Names }) => Names)
}

export const removeVolume = name => engine('DELETE', `/volumes/${name}`)
export const createVolume = volume => engine('POST', '/volumes/create', volume)

/** A container that has a volume, for the time of `use`, and never runs. */
export async function through(volume, { name, labels }, use) {
  const { Id } = await engine('POST', `/containers/create${name ? `?name=${name}` : ''}`, {
    Image: BUSYBOX,
    Entrypoint: ['/bin/true'],
    Labels: labels,
    HostConfig: {
      Mounts: [{ Type: 'volume', Source: volume, Target: '/.sandbox', VolumeOptions: { NoCopy: true } }],
    },
  })
  try {
    return await use(Id)
  } finally {
    await client.removeContainer(Id).catch(error => assert.equal(error.code, 'NOT_FOUND'))
  }
}

/** An archive of one file, which everybody may read and run. */
const tarOf = (name, contents) => Buffer.concat([entry(name, { mode: 0o555, contents: Buffer.from(contents) }), END])

/** A volume of our name and labels that holds these files, `[name, contents]`. */
export async function volumeWith({ name, labels }, files) {
  await removeVolume(name)
  await createVolume({ Name: name, Driver: 'local', Labels: labels })
  await through(name, {}, async id => {
    for (const [file, contents] of files) await client.putArchive(id, '/.sandbox', tarOf(file, contents))
  })
}

/** Uses an image that has these files, `[path, contents]`, and what BusyBox's has; it is removed whatever comes. */
export async function imageWith(files, use) {
  const { Id } = await engine('POST', '/containers/create', { Image: BUSYBOX, Entrypoint: ['/bin/true'] })
  const image = `sandbox-test/with-${Id.slice(0, 12)}`
  try {
    for (const [path, contents] of files) await client.putArchive(Id, '/', tarOf(path, contents))
    await engine('POST', `/commit?container=${Id}&repo=${image}&tag=latest`)
  } finally {
    await client.removeContainer(Id)
  }
  try {
    return await use(`${image}:latest`)
  } finally {
    await engine('DELETE', `/images/${image}:latest`)
  }
}
