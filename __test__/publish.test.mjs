// What is published, and in which order; the publishing itself is npm's.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { platforms } from '../scripts/pack.mjs'
import { inOrder, publish } from '../scripts/publish.mjs'

const folder = mkdtempSync(join(tmpdir(), 'sandbox-publish-'))
after(() => rmSync(folder, { recursive: true }))

const { name, version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const others = platforms().map(({ manifest }) => manifest.name)
const depending = (names, on = version) => Object.fromEntries(names.map(other => [other, on]))

/** A folder with packages of nothing but their manifests. */
function packed(manifests) {
  const home = mkdtempSync(join(folder, 'packed-'))
  for (const [index, manifest] of manifests.entries()) {
    mkdirSync(join(home, 'package'), { recursive: true })
    writeFileSync(join(home, 'package/package.json'), JSON.stringify(manifest))
    execFileSync('tar', ['-czf', `${index}.tgz`, 'package'], { cwd: home })
  }
  return home
}

const ofPlatforms = others.map(other => ({ name: other, version }))
const main = { name, version, optionalDependencies: depending(others) }

test('the main package is the last', async () => {
  const found = await inOrder(packed([main, ...ofPlatforms]))
  assert.deepEqual(found.map(one => one.name).toSorted(), [name, ...others].toSorted())
  assert.equal(found.at(-1).name, name)
})

test('what is not whole, or not of one version, is not published', async () => {
  for (const [manifests, words] of [
    [ofPlatforms, /no main package/],
    [[main, ...ofPlatforms.slice(1)], /needed are .*linux-x64-gnu/],
    [[main, ...ofPlatforms, { name: 'stray', version }], /stray/],
    [[{ ...main, optionalDependencies: depending(others.slice(1)) }, ...ofPlatforms], /depends on/],
    [[main, ...ofPlatforms.slice(1), { ...ofPlatforms[0], version: '0.0.1' }], /one version/],
    [[{ ...main, optionalDependencies: depending(others, '^1.0.0') }, ...ofPlatforms], /one version/],
  ]) {
    await assert.rejects(inOrder(packed(manifests)), words)
  }
})

test('nobody publishes by hand', async () => {
  const before = process.env.GITHUB_ACTIONS
  delete process.env.GITHUB_ACTIONS
  await assert.rejects(publish({ from: packed([main, ...ofPlatforms]) }), /Only the release workflow publishes/)
  if (before !== undefined) process.env.GITHUB_ACTIONS = before
})
