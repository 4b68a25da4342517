// Libraries that are nothing but what they need.

/** Where the one segment of the library below is in memory; in its file it is at 0. */
const BASE = 0x4000

/** A library that needs the versions of `libraries`, one list for each: headers, dynamic section, needs and names. */
export function library(libraries) {
  const [dynamicAt, needsAt] = [64 + 2 * 56, 64 + 2 * 56 + 4 * 16]
  const names = libraries.flat()
  const stringsAt = needsAt + libraries.length * 16 + names.length * 16
  const bytes = Buffer.alloc(stringsAt + 1 + names.reduce((sum, name) => sum + name.length + 1, 0))
  bytes.write('\x7fELF\x02\x01\x01', 0, 'latin1')
  bytes.writeUInt16LE(62, 18)
  bytes.writeBigUInt64LE(64n, 32)
  bytes.writeUInt16LE(56, 54)
  bytes.writeUInt16LE(2, 56)
  const segment = (at, type, offset, size) => {
    bytes.writeUInt32LE(type, at)
    bytes.writeBigUInt64LE(BigInt(offset), at + 8)
    bytes.writeBigUInt64LE(BigInt(offset + BASE), at + 16)
    bytes.writeBigUInt64LE(BigInt(size), at + 32)
  }
  segment(64, 1, 0, bytes.length)
  segment(64 + 56, 2, dynamicAt, 4 * 16)
  const entries = [
    [5, stringsAt + BASE],
    [0x6ffffffe, needsAt + BASE],
    [0x6fffffff, libraries.length],
  ]
  entries.flat().forEach((value, index) => bytes.writeBigUInt64LE(BigInt(value), dynamicAt + index * 8))
  let [need, string] = [needsAt, stringsAt + 1]
  for (const [place, versions] of libraries.entries()) {
    const next = need + 16 + versions.length * 16
    bytes.writeUInt16LE(versions.length, need + 2)
    bytes.writeUInt32LE(16, need + 8)
    bytes.writeUInt32LE(place === libraries.length - 1 ? 0 : next - need, need + 12)
    for (const [index, name] of versions.entries()) {
      const at = need + 16 + index * 16
      bytes.writeUInt32LE(string - stringsAt, at + 8)
      bytes.writeUInt32LE(index === versions.length - 1 ? 0 : 16, at + 12)
      string += bytes.write(name, string, 'latin1') + 1
    }
    need = next
  }
  return bytes
}
