// What the build of an addon for a release must not let pass, and how it is linked; the building itself is too long for a test.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { addonOf, whyNotReleased } from '../scripts/build.mjs'
import { commandFor } from '../scripts/cargo-addon.mjs'
import { platforms } from '../scripts/pack.mjs'
import { library } from './support/elf-library.mjs'

const read = path => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const { napi } = JSON.parse(read('package.json'))

test('each target’s addon is the file of its package', () => {
  assert.deepEqual(
    napi.targets.map(addonOf).toSorted(),
    platforms()
      .map(({ manifest }) => manifest.main)
      .toSorted(),
  )
})

test('an addon that needs a newer glibc than README says is not released', () => {
  const [, said] = /glibc (\d+\.\d+) or newer/.exec(read('README.md'))
  const [major, minor] = said.split('.').map(Number)
  const needing = versions => whyNotReleased(library([versions]), { profile: 'release', cross: 'napi' })
  assert.equal(needing(['GLIBC_2.2.5', `GLIBC_${said}`]), undefined)
  assert.match(needing([`GLIBC_${major}.${minor + 1}`, 'GLIBC_2.2.5']), /needs glibc .*, newer than/)
  // Nothing of glibc: then it was linked against something else, or could not be read.
  assert.match(needing([]), /needs glibc/)
  assert.equal(whyNotReleased(library([]), { profile: 'release', cross: 'zig' }), undefined)
})

test('a release has a bound, what is built for tests has none', () => {
  const large = Buffer.alloc(20 * 1024 * 1024)
  assert.match(whyNotReleased(large, { profile: 'release' }), /more than \d+$/)
  assert.equal(whyNotReleased(large, { profile: 'quick' }), undefined)
})

test('whoever links it, one crate type is built, which is what link-time optimisation needs', () => {
  const rest = ['--target', 'x86_64-unknown-linux-musl', '--profile', 'release']
  const one = ['--lib', '--crate-type', 'cdylib']
  assert.deepEqual(commandFor(['build', '--lib', ...rest]), ['cargo', 'rustc', ...one, ...rest])
  assert.deepEqual(commandFor(['zigbuild', ...rest]), ['cargo-zigbuild', 'rustc', ...one, ...rest])
  assert.deepEqual(commandFor(['metadata', '--format-version', '1']), ['cargo', 'metadata', '--format-version', '1'])
})
