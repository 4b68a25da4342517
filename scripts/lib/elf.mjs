// What the headers of an ELF program or library say. 64 bits, little-endian; offsets and numbers are those of elf.h.

const MAGIC = 0x464c457f
// ELFCLASS64, ELFDATA2LSB.
const CLASS_AND_ORDER = 0x0201
const PT_LOAD = 1
const PT_DYNAMIC = 2
const PT_INTERP = 3
const DT_NULL = 0n
const DT_NEEDED = 1n
const DT_STRTAB = 5n
const DT_VERNEED = 0x6ffffffen
const DT_VERNEEDNUM = 0x6fffffffn

/** Why `bytes` is no static program for the ELF machine with that number; undefined when it is one. */
export function whyNotStatic(bytes, machine) {
  if (!isElf(bytes)) return 'it is no 64-bit ELF file'
  const found = bytes.readUInt16LE(18)
  if (found !== machine) return `it is for machine ${found}, not ${machine}`
  const segments = segmentsOf(bytes)
  if (segments.some(({ type }) => type === PT_INTERP)) return 'it names a dynamic linker'
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC)
  // A static program that may be loaded anywhere has such a segment, but needs no library.
  return dynamic && entriesOf(bytes, dynamic).has(DT_NEEDED) ? 'it needs a shared library' : undefined
}

/**
 * The versions of symbols of other libraries that a library cannot be loaded without, as in `GLIBC_2.17`: what its section
 * `.gnu.version_r` holds. None in a file that is no ELF library.
 */
export function neededVersions(bytes) {
  const segments = isElf(bytes) ? segmentsOf(bytes) : []
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC)
  const entries = dynamic ? entriesOf(bytes, dynamic) : new Map()
  if (!entries.has(DT_VERNEED)) return []
  const offsetOf = address => {
    const found = segments.find(
      ({ type, start, size }) => type === PT_LOAD && address >= start && address < start + size,
    )
    if (!found) throw new Error(`No segment holds the address ${address}`)
    return address - found.start + found.offset
  }
  const strings = offsetOf(Number(entries.get(DT_STRTAB)))
  const versions = []
  let library = offsetOf(Number(entries.get(DT_VERNEED)))
  for (let left = entries.get(DT_VERNEEDNUM); left > 0n; left -= 1n) {
    // Elf64_Verneed: how many versions of this library, where the first is, where the next library is; each from its own start.
    let version = library + bytes.readUInt32LE(library + 8)
    for (let more = bytes.readUInt16LE(library + 2); more > 0; more--) {
      const name = strings + bytes.readUInt32LE(version + 8)
      versions.push(bytes.toString('latin1', name, bytes.indexOf(0, name)))
      version += bytes.readUInt32LE(version + 12)
    }
    library += bytes.readUInt32LE(library + 12)
  }
  return versions
}

/** The oldest glibc that has all that a library needs of it, as `2.17`; undefined when it needs nothing of glibc. */
export function oldestGlibc(bytes) {
  const found = neededVersions(bytes).flatMap(name => /^GLIBC_(?<version>\d[\d.]*)$/.exec(name)?.groups.version ?? [])
  return found.toSorted(compareVersions).at(-1)
}

/** Compares versions such as `2.2.5` and `2.17`, number by number. */
export function compareVersions(one, other) {
  const [left, right] = [one, other].map(text => text.split('.').map(Number))
  const at = left.findIndex((number, index) => number !== (right[index] ?? 0))
  return at < 0 ? left.length - right.length : left[at] - (right[at] ?? 0)
}

function isElf(bytes) {
  return bytes.length >= 64 && bytes.readUInt32LE(0) === MAGIC && bytes.readUInt16BE(4) === CLASS_AND_ORDER
}

function segmentsOf(bytes) {
  const [table, size, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54), bytes.readUInt16LE(56)]
  return Array.from({ length: count }, (_, index) => {
    const at = table + index * size
    return {
      type: bytes.readUInt32LE(at),
      offset: Number(bytes.readBigUInt64LE(at + 8)),
      start: Number(bytes.readBigUInt64LE(at + 16)),
      size: Number(bytes.readBigUInt64LE(at + 32)),
    }
  })
}

/** The dynamic section, value by tag; of those that come more than once, the last. */
function entriesOf(bytes, { offset, size }) {
  const entries = new Map()
  for (let at = offset; at < offset + size; at += 16) {
    const tag = bytes.readBigInt64LE(at)
    if (tag === DT_NULL) break
    entries.set(tag, bytes.readBigUInt64LE(at + 8))
  }
  return entries
}
