// docs/lifecycle.md names a test for each transition, and the place of each in the source: both must be there.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const text = readFileSync(`${root}/docs/lifecycle.md`, 'utf8')
const rows = text
  .split('\n')
  .filter(line => /^\| \d+ /.test(line))
  .map(line => line.split('|').map(cell => cell.trim()))
const code = cell => [...cell.matchAll(/`([^`]+)`/g)].map(([, found]) => found)

/** Titles may have a part that the code fills in: `${…}` matches anything. */
function titles() {
  const files = ['__test__', '__test__/live', '__test__/soak'].flatMap(folder =>
    readdirSync(`${root}/${folder}`).flatMap(name => (name.endsWith('.test.mjs') ? [`${folder}/${name}`] : [])),
  )
  const found = files.flatMap(file => [
    ...readFileSync(`${root}/${file}`, 'utf8').matchAll(/\btest\(\s*(?:'((?:[^'\\]|\\.)+)'|`([^`]+)`|"([^"]+)")/g),
  ])
  return found.map(([, single, template, double]) => {
    const parts = (single ?? double ?? template).split(/\$\{[^}]+\}/)
    return new RegExp(`^${parts.map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.+')}$`)
  })
}

test('every transition of the diagram has a row, and every row a transition', () => {
  const drawn = new Set([...text.matchAll(/--> [^:]+: (\d+) /g)].map(([, number]) => number))
  assert.deepEqual(
    rows.map(([, number]) => number),
    [...drawn].toSorted((one, other) => one - other),
  )
})

test('every test that the table names is there', () => {
  const known = titles()
  const named = rows.flatMap(cells => code(cells[4]))
  const elsewhere = [...text.matchAll(/\n?\(`([^`]+)`\)/g)].map(([, found]) => found)
  assert.equal(named.length, rows.length)
  assert.ok(elsewhere.length >= 2)
  for (const title of [...named, ...elsewhere]) {
    assert.ok(
      known.some(pattern => pattern.test(title)),
      title,
    )
  }
})

test('every function and file that the table names is there', () => {
  const folder = `${root}/src/environment`
  const source = Object.fromEntries(
    readdirSync(folder)
      .filter(name => name.endsWith('.rs'))
      .map(name => [name, readFileSync(`${folder}/${name}`, 'utf8')]),
  )
  for (const name of rows.flatMap(cells => code(cells[3]))) {
    if (name.endsWith('.rs')) assert.ok(source[name], name)
    else
      assert.ok(
        Object.values(source).some(file => file.includes(`fn ${name}(`)),
        name,
      )
  }
})
