// docs/faults.md names a test for each fault of the field that it lists: each must be there.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const rows = readFileSync(`${root}/docs/faults.md`, 'utf8')
  .split('\n')
  .filter(line => line.startsWith('| ') && line.includes('`'))
  .map(line => line.split(' | ').at(-1))

function files(folder, ending) {
  return readdirSync(folder).flatMap(name => {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) return files(path, ending)
    return name.endsWith(ending) ? [readFileSync(path, 'utf8')] : []
  })
}

test('every test that docs/faults.md names is there', () => {
  const rust = [...files(`${root}/src`, '.rs'), ...files(`${root}/tests`, '.rs')]
  const source = [...files(`${root}/__test__`, '.test.mjs'), ...rust].join('\n')
  const names = rows.flatMap(cell => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name))
  assert.ok(names.length >= 80, `only ${names.length}`)
  for (const name of names) {
    const found = /^\w+$/.test(name) ? source.includes(`fn ${name}(`) : source.includes(name)
    assert.ok(found, name)
  }
})
