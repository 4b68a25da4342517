// Archives as tests write them by hand.

/** An entry of a ustar archive: its header and room for `contents`, or for `size` zeros. */
export function entry(
  name,
  { type = '0', mode = 0o644, owner = 0, link = '', size = 0, contents = Buffer.alloc(size) } = {},
) {
  const header = Buffer.alloc(512)
  const octal = (number, digits) => number.toString(8).padStart(digits, '0')
  header.write(name, 0)
  header.write(`${octal(mode, 7)}\0`, 100)
  header.write(`${octal(owner, 7)}\0`, 108)
  header.write(`${octal(owner, 7)}\0`, 116)
  header.write(`${octal(contents.length, 11)}\0`, 124)
  header.write(`${octal(0, 11)}\0`, 136)
  header.write('        ', 148)
  header.write(type, 156)
  header.write(link, 157)
  header.write('ustar\0', 257)
  header.write('00', 263)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${octal(sum, 6)}\0 `, 148)
  const padding = Buffer.alloc((512 - (contents.length % 512)) % 512)
  return Buffer.concat([header, contents, padding])
}

/** What an archive ends with. */
export const END = Buffer.alloc(1024)
