// What the builds read from ELF files: a wrong answer would let an addon be published that old systems cannot load.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { compareVersions, neededVersions, oldestGlibc, whyNotStatic } from '../scripts/lib/elf.mjs'
import { library } from './support/elf-library.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

test('the versions of all libraries are read, and the oldest glibc that has them', () => {
  const bytes = library([['GCC_3.0'], ['GLIBC_2.2.5', 'GLIBC_2.17'], ['GLIBC_2.3', 'GLIBC_PRIVATE']])
  assert.deepEqual(neededVersions(bytes), ['GCC_3.0', 'GLIBC_2.2.5', 'GLIBC_2.17', 'GLIBC_2.3', 'GLIBC_PRIVATE'])
  assert.equal(oldestGlibc(bytes), '2.17')
})

test('versions are compared as numbers, not as text', () => {
  assert.equal(oldestGlibc(library([['GLIBC_2.9', 'GLIBC_2.34', 'GLIBC_2.3.4']])), '2.34')
  const sorted = ['2.2.5', '2.3', '2.3.4', '2.9', '2.17', '2.34', '3.0']
  assert.deepEqual(sorted.toReversed().toSorted(compareVersions), sorted)
  assert.equal(compareVersions('2.17', '2.17'), 0)
})

test('what needs nothing of glibc, or is no library, has no oldest one', () => {
  for (const bytes of [library([['GCC_3.0']]), library([]), Buffer.from('no library'), Buffer.alloc(100)])
    assert.equal(oldestGlibc(bytes), undefined)
  const broken = library([['GLIBC_2.17']])
  broken.writeBigUInt64LE(1n, 64 + 16)
  assert.throws(() => oldestGlibc(broken), /No segment holds/)
})

test('a program that needs a library, or is for another machine, is not static', () => {
  const bytes = library([])
  assert.equal(whyNotStatic(bytes, 62), undefined)
  assert.match(whyNotStatic(bytes, 183), /machine 62, not 183/)
  // Its first dynamic entry names a library (DT_NEEDED).
  bytes.writeBigUInt64LE(1n, 64 + 2 * 56)
  assert.match(whyNotStatic(bytes, 62), /shared library/)
})

// The names are in the file as text, whoever reads it: in another way it must be the same.
test('of the addon that was built it says what its text says', { skip: process.platform !== 'linux' }, () => {
  const names = readdirSync(root).filter(name => name.endsWith('.node') && name.includes('-gnu'))
  assert.ok(names.length > 0)
  for (const name of names) {
    const bytes = readFileSync(join(root, name))
    const text = bytes.toString('latin1').match(/\bGLIBC_\d[\d.]*(?=\0)/g)
    assert.deepEqual(
      [...new Set(neededVersions(bytes).filter(one => one.startsWith('GLIBC_')))].toSorted(),
      [...new Set(text)].toSorted(),
      name,
    )
    const versions = text.map(found => found.slice('GLIBC_'.length))
    assert.equal(oldestGlibc(bytes), versions.toSorted(compareVersions).at(-1))
  }
})
