// Which addresses a private engine may give to networks: a block that nothing on this machine uses.

import { existsSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'

// Each is a /16 that has 32 blocks of /21. The last one is set aside for tests of network devices (RFC 2544).
const BASES = ['10.231', '172.29', '198.18']
const BLOCK_BITS = 21

/** An unused block for the engine at place `number`, such as `10.231.8.0/21`. */
export function unusedBlock(number) {
  const blocks = BASES.map(base => `${base}.${number * 8}.0/${BLOCK_BITS}`)
  const taken = [...ownAddresses(), ...routes()]
  const block = blocks.find(candidate => taken.every(range => !overlap(range, rangeOf(candidate))))
  if (!block) throw new Error(`No unused addresses for a private engine: ${blocks.join(', ')} are taken`)
  return block
}

/** The first address of `block`, as the gateway of a small network. */
export function firstNetwork(block) {
  return block.replace(/\.0\/\d+$/, '.1/28')
}

/** Names of the network interfaces that have a network inside `block`. */
export function interfacesIn(block) {
  return routes()
    .filter(range => overlap(range, rangeOf(block)))
    .map(({ name }) => name)
}

function ownAddresses() {
  const addresses = Object.values(networkInterfaces()).flat()
  return addresses.filter(({ family }) => family === 'IPv4').map(({ cidr }) => rangeOf(cidr))
}

// Destination and mask are little-endian hexadecimal. A route wider than a /16 (the default route, a VPN that takes all
// of 10.0.0.0/8) is no reason to stay away: a network's own, narrower route wins.
function routes() {
  if (!existsSync('/proc/net/route')) return []
  const rows = readFileSync('/proc/net/route', 'utf8').trim().split('\n').slice(1)
  return rows
    .map(row => row.split('\t'))
    .map(fields => ({ name: fields[0], first: littleEndian(fields[1]), mask: littleEndian(fields[7]) }))
    .filter(({ mask }) => mask >= 0xffff0000)
    .map(({ name, first, mask }) => ({ name, first, last: first + (0xffffffff - mask) }))
}

function overlap(one, other) {
  return one.last >= other.first && one.first <= other.last
}

function rangeOf(cidr) {
  const [address, bits] = cidr.split('/')
  const size = 2 ** (32 - Number(bits))
  const first = Math.floor(toNumber(address) / size) * size
  return { first, last: first + size - 1 }
}

function toNumber(address) {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
}

function littleEndian(hex) {
  return Buffer.from(hex, 'hex').readUInt32LE(0)
}
