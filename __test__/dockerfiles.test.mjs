// The images that docker/ offers: what their comments tell a user to write. live/dockerfiles.test.mjs builds what can be built here.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDockerSandboxEnvironment, createMemoryDockerClient } from '../index.js'
import { optionsIn, tagIn, textOf } from './support/dockerfiles.mjs'

for (const name of ['Dockerfile', 'agent.Dockerfile']) {
  test(`the options that docker/${name} shows are options, for the image and the user that it makes`, () => {
    const options = optionsIn(name)
    const environment = createDockerSandboxEnvironment({
      workspace: { id: 'w' },
      client: createMemoryDockerClient(),
      ...options,
    })
    assert.equal(options.image, tagIn(name))
    const [, user] = /^USER (\S+)$/m.exec(textOf(name))
    assert.equal(options.user, user)
    assert.match(textOf(name), /^WORKDIR \/workspace$/m)
    assert.deepEqual(
      [environment.manifest.metadata.image, environment.manifest.metadata.user],
      [options.image, options.user],
    )
  })
}
