// What the header of an ELF program says. 64 bits, little-endian; offsets and numbers are those of elf.h.

const MAGIC = 0x464c457f
// ELFCLASS64, ELFDATA2LSB.
const CLASS_AND_ORDER = 0x0201
const PT_DYNAMIC = 2
const PT_INTERP = 3
const DT_NULL = 0n
const DT_NEEDED = 1n

/** Why `bytes` is no static program for the ELF machine with that number; undefined when it is one. */
export function whyNotStatic(bytes, machine) {
  if (bytes.length < 64 || bytes.readUInt32LE(0) !== MAGIC || bytes.readUInt16BE(4) !== CLASS_AND_ORDER)
    return 'it is no 64-bit ELF file'
  const found = bytes.readUInt16LE(18)
  if (found !== machine) return `it is for machine ${found}, not ${machine}`
  const segments = segmentsOf(bytes)
  if (segments.some(({ type }) => type === PT_INTERP)) return 'it names a dynamic linker'
  const dynamic = segments.find(({ type }) => type === PT_DYNAMIC)
  // A static program that may be loaded anywhere has such a segment, but needs no library.
  return dynamic && needsLibrary(bytes, dynamic) ? 'it needs a shared library' : undefined
}

function segmentsOf(bytes) {
  const [start, size, count] = [Number(bytes.readBigUInt64LE(32)), bytes.readUInt16LE(54), bytes.readUInt16LE(56)]
  return Array.from({ length: count }, (_, index) => {
    const at = start + index * size
    return {
      type: bytes.readUInt32LE(at),
      offset: Number(bytes.readBigUInt64LE(at + 8)),
      size: Number(bytes.readBigUInt64LE(at + 32)),
    }
  })
}

function needsLibrary(bytes, { offset, size }) {
  for (let at = offset; at < offset + size; at += 16) {
    const tag = bytes.readBigInt64LE(at)
    if (tag === DT_NEEDED) return true
    if (tag === DT_NULL) return false
  }
  return false
}
