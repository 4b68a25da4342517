// A run on a host whose engine manages iptables and forwards, as most do, with a world behind it that answers everything (C28,
// C30): what leaves an ordinary container arrives there, and nothing of a run does.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { DNS, ELSEWHERE, HTTPS } from '../support/elsewhere.mjs'

const PROGRAM = fileURLToPath(new URL('../support/own-network.mjs', import.meta.url))
// Node for both runtimes: what is tried are containers, and the engine's scripts are Node's.
const { stdout } = await promisify(execFile)('unshare', ['--net', 'node', PROGRAM], { timeout: 180_000 })
const found = JSON.parse(stdout)

test('an ordinary container reaches the world by each way that is tried', () => {
  // Containers have no IPv6 unless an engine is told so.
  const four = ELSEWHERE.filter(address => !address.includes(':'))
  const ways = four.flatMap(address => [
    `tcp ${address} ${HTTPS}`,
    `tcp ${address} ${DNS}`,
    `udp ${address} ${DNS}`,
    `icmp ${address}`,
  ])
  assert.deepEqual(found.anotherContainer, ways.toSorted())
})

for (const transport of ['resident', 'exec']) {
  test(`C28, C30: nothing of a run arrives there [${transport}]`, () => assert.deepEqual(found[transport], []))
}

test("what listens on one of the host's addresses is out of reach of the resident transport, and of that alone", () => {
  // The exec transport's documented limit: its container has a way to the host.
  assert.deepEqual(found.nearby, { resident: '', exec: 'OUT\n' })
})

test("an allowed name that leads to the host's own public address is refused, unless that is asked for", () => {
  assert.match(found.ownAddress, /^HTTP\/1\.1 403 Host Address Not Public\r\n[^]*\(an address of this host\)/)
  assert.match(found.ownAddressAllowed, /^HTTP\/1\.1 200 [^]*OUT\n$/)
})
