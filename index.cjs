// @ts-check
'use strict'

const { createApi, loadBinding } = require('./js/main.cjs')

const api = createApi(loadBinding(() => require('./binding.cjs')))

// One by one: that is how Node and bundlers find the names that an ES module may import from here.
exports.createDockerSandboxEnvironment = api.createDockerSandboxEnvironment
exports.createDockerSandboxTools = api.createDockerSandboxTools
exports.createNodeDockerClient = api.createNodeDockerClient
exports.createMemoryDockerClient = api.createMemoryDockerClient
exports.createMemoryLeaseStore = api.createMemoryLeaseStore
exports.createFileLeaseStore = api.createFileLeaseStore
exports.createMemorySnapshotStore = api.createMemorySnapshotStore
exports.createFileSnapshotStore = api.createFileSnapshotStore
exports.dockerSandboxSecurityDefaults = api.dockerSandboxSecurityDefaults
exports.allowlistProxyQuotaDefaults = api.allowlistProxyQuotaDefaults
exports.SandboxError = api.SandboxError
exports.ConflictError = api.ConflictError
