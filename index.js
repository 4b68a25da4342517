// The ES module is a window onto the CommonJS one, so that an application which loads both has one class of each error.
import api from './index.cjs'

export const createDockerSandboxEnvironment = api.createDockerSandboxEnvironment
export const createDockerSandboxTools = api.createDockerSandboxTools
export const createNodeDockerClient = api.createNodeDockerClient
export const createMemoryDockerClient = api.createMemoryDockerClient
export const createMemoryLeaseStore = api.createMemoryLeaseStore
export const createFileLeaseStore = api.createFileLeaseStore
export const createMemorySnapshotStore = api.createMemorySnapshotStore
export const createFileSnapshotStore = api.createFileSnapshotStore
export const dockerSandboxSecurityDefaults = api.dockerSandboxSecurityDefaults
export const allowlistProxyQuotaDefaults = api.allowlistProxyQuotaDefaults
export const SandboxError = api.SandboxError
export const ConflictError = api.ConflictError
