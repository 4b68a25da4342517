// The runtime's fingerprint, written from its description and not from js/canonical.cjs: the two must agree.
import { createHash } from 'node:crypto'

function writeValue(value, out) {
  switch (typeof value) {
    case 'number':
      if (!Number.isFinite(value)) throw new RangeError('non-finite number in a manifest')
      out.push(JSON.stringify(value))
      return
    case 'string':
    case 'boolean':
      out.push(JSON.stringify(value))
      return
    default:
      if (value === null) out.push('null')
      else if (Array.isArray(value)) writeList(value, out)
      else writeObject(value, out)
  }
}

function writeList(list, out) {
  out.push('[')
  for (let index = 0; index < list.length; index++) {
    if (index > 0) out.push(',')
    writeValue(list[index], out)
  }
  out.push(']')
}

function writeObject(object, out) {
  const keys = Object.keys(object)
  keys.sort((a, b) => a.localeCompare(b))
  let first = true
  out.push('{')
  for (const key of keys) {
    if (object[key] === undefined) continue
    if (!first) out.push(',')
    first = false
    out.push(JSON.stringify(key), ':')
    writeValue(object[key], out)
  }
  out.push('}')
}

export function fingerprintOf(manifest) {
  const out = []
  writeValue(manifest, out)
  return 'sha256:' + createHash('sha256').update(out.join(''), 'utf8').digest('hex')
}
