// What hosts that are killed or stopped write: contents that say which file they are of, which version of it, and whether
// they are whole.
const LINE = 64

/** `size` bytes (at least one line's) that are of no other path or version. */
export function contentsOf(path, version, size) {
  const line = `${path} ${version} ${size}`.padEnd(LINE - 1, '.') + '\n'
  return Buffer.from(line.repeat(Math.ceil(size / LINE))).subarray(0, Math.max(size, LINE))
}

/** The version that these bytes are of, or a word on what is wrong with them. */
export function versionOf(path, bytes) {
  const [, named, version, size] =
    bytes
      .subarray(0, LINE)
      .toString('latin1')
      .match(/^(\S+) (\d+) (\d+)\.*\n$/) ?? []
  if (named === undefined) return `no head in ${bytes.length} bytes`
  if (named !== path) return `of ${named}`
  return contentsOf(path, version, Number(size)).equals(bytes) ? Number(version) : `torn: ${bytes.length} of ${size}`
}

/** Every file's version, or what is wrong with it. */
export async function workspaceOf(from) {
  const { entries } = await from.list('.', { depth: 5 })
  const state = { files: {}, others: [] }
  for (const { path, type } of entries) {
    if (type !== 'file') continue
    if (path === 'log') state.files.log = logged((await from.readFile(path, { encoding: 'utf8' })).contents)
    else if (/^(a\d|b\d|c\d|deep\/er\/a\d)$/.test(path)) {
      const got = []
      for await (const piece of await from.readFileStream(path)) got.push(piece)
      state.files[path] = versionOf(path, Buffer.concat(got))
    } else state.others.push(path)
  }
  return state
}

/** The last line of the log, if it has all lines before it once and in order. */
function logged(text) {
  const lines = text.split('\n').slice(0, -1)
  const wrong = lines.findIndex((line, at) => Number(line) !== at + 1)
  return wrong < 0 && text.endsWith('\n') ? lines.length : `log: ${JSON.stringify(text.slice(-100))}, line ${wrong}`
}
