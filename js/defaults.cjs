// @ts-check
'use strict'

const MIB = 1024 * 1024

/**
 * Default quotas of the allowlist proxy. What each bounds, and its unit, is in the type declarations. They let an agent
 * install packages and call APIs, and stop a loop or a leak within one run.
 */
const allowlistProxyQuotaDefaults = Object.freeze({
  maxConnections: 32,
  maxTotalConnections: 256,
  maxInFlightDns: 16,
  maxRequests: 1_000,
  maxHeadBytes: 16 * 1024,
  headTimeoutMs: 10_000,
  maxBytesUp: 64 * MIB,
  maxBytesDown: 256 * MIB,
  idleTimeoutMs: 60_000,
  tunnelLifetimeMs: 600_000,
  maxNetworkRequests: 10_000,
  maxNetworkBytes: 1_024 * MIB,
})

module.exports = { allowlistProxyQuotaDefaults }
