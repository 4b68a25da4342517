// What is published, in which order and how; the publishing itself is npm's.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
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

// In place of npm: writes down what it was asked for. It knows the packages of FAKE_PUBLISHED and fails to publish the file FAKE_FAILING.
const FAKE_NPM = `#!/bin/sh
echo "$*" >> "$FAKE_LOG"
case "$1" in
view) case " $FAKE_PUBLISHED " in *" $2 "*) echo "\${2##*@}" ;; *) exit 1 ;; esac ;;
publish) [ "$2" != "$FAKE_FAILING" ] ;;
esac
`

/** Runs the script in a workflow with the fake npm, and resolves to its exit code and what npm was asked for. */
function publishing(from, { args = [], published = [], failing = '-', workflow = true } = {}) {
  const bin = mkdtempSync(join(folder, 'bin-'))
  const log = join(bin, 'log')
  writeFileSync(log, '')
  writeFileSync(join(bin, 'npm'), FAKE_NPM, { mode: 0o755 })
  const { GITHUB_ACTIONS: _, ...outside } = process.env
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('../scripts/publish.mjs', import.meta.url)), '--from', from, ...args],
    {
      encoding: 'utf8',
      env: {
        ...outside,
        ...(workflow && { GITHUB_ACTIONS: 'true' }),
        PATH: `${bin}:${process.env.PATH}`,
        FAKE_LOG: log,
        FAKE_PUBLISHED: published.map(one => `${one}@${version}`).join(' '),
        FAKE_FAILING: failing,
      },
    },
  )
  const calls = readFileSync(log, 'utf8').trim().split('\n')
  return {
    status,
    output: stdout + stderr,
    viewed: calls.filter(call => call.startsWith('view ')),
    published: calls.filter(call => call.startsWith('publish ')),
  }
}

/** What npm is to be asked for, in this order, for packages of a folder. */
function wanted(packages, tag, how) {
  return packages.map(({ path }) => ['publish', path, '--access', 'public', '--tag', tag, ...how].join(' '))
}

test('a workflow publishes all with provenance, the main package last', async () => {
  const from = packed([main, ...ofPlatforms])
  const packages = await inOrder(from)
  const { status, published, output } = publishing(from)
  assert.equal(status, 0, output)
  assert.deepEqual(published, wanted(packages, 'latest', ['--provenance']))
})

test('a dry run asks npm for one', async () => {
  const from = packed([main, ...ofPlatforms])
  const packages = await inOrder(from)
  const here = publishing(from, { args: ['--dry-run'], workflow: false })
  assert.deepEqual([here.status, here.published], [0, wanted(packages, 'latest', ['--dry-run'])], here.output)
  const there = publishing(from, { args: ['--dry-run'] })
  assert.deepEqual(there.published, wanted(packages, 'latest', ['--provenance', '--dry-run']))
})

test('what is published already is left alone, in a dry run too, where npm would refuse it', async () => {
  const from = packed([main, ...ofPlatforms])
  const packages = await inOrder(from)
  const there = packages.slice(0, 2).map(one => one.name)
  for (const args of [[], ['--dry-run']]) {
    const { status, viewed, published, output } = publishing(from, { args, published: there })
    assert.equal(status, 0, output)
    assert.deepEqual(published, wanted(packages.slice(2), 'latest', ['--provenance', ...args]))
    assert.deepEqual(
      viewed,
      packages.map(one => `view ${one.name}@${version} version`),
    )
    for (const one of there) assert.ok(output.includes(`${one}@${version} is published already`), output)
  }
})

test('after a failure nothing more is published, least of all the main package', async () => {
  const from = packed([main, ...ofPlatforms])
  const packages = await inOrder(from)
  const { status, published, output } = publishing(from, { failing: packages[1].path })
  assert.notEqual(status, 0)
  assert.deepEqual(published, wanted(packages.slice(0, 2), 'latest', ['--provenance']))
  assert.match(output, /npm publish .* failed with exit code 1/)
})

test('a candidate has a tag of its own', async () => {
  const candidate = '9.0.0-rc.1'
  const from = packed([
    { name, version: candidate, optionalDependencies: depending(others, candidate) },
    ...others.map(other => ({ name: other, version: candidate })),
  ])
  const packages = await inOrder(from)
  assert.deepEqual(publishing(from).published, wanted(packages, 'next', ['--provenance']))
})

test('the crate has the version of the package', () => {
  const cargo = readFileSync(new URL('../Cargo.toml', import.meta.url), 'utf8')
  assert.equal(/^version = "(?<version>.*)"$/m.exec(cargo).groups.version, version)
})
