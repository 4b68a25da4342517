// The workflows, as far as they can be looked at without running them.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { load } from 'js-yaml'
import { platforms } from '../scripts/pack.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, '.github/workflows')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const workflows = Object.fromEntries(
  readdirSync(folder).map(name => [name, load(readFileSync(join(folder, name), 'utf8'))]),
)
const jobs = Object.entries(workflows).flatMap(([file, workflow]) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ where: `${file}: ${name}`, ...job })),
)
const steps = jobs.flatMap(({ where, steps: list = [] }) => list.map(step => ({ where, ...step })))
const release = workflows['release.yml'].jobs

test('each command of a workflow is one of package.json, each file of scripts/ is there', () => {
  const called = []
  for (const { where, run = '' } of steps) {
    for (const [, name] of run.matchAll(/npm (?:run )?([\w:]+)/g)) {
      if (name === 'ci') continue
      assert.ok(manifest.scripts[name], `${where} runs ${name}`)
      called.push(name)
    }
  }
  assert.deepEqual([...new Set(called)].toSorted(), [
    'build',
    'build:supervisor',
    'package',
    'publish:packed',
    'test',
    'try',
    'try:packed',
  ])
  for (const script of Object.values(manifest.scripts)) {
    const [, path] = script.match(/node (scripts\/\S+)/) ?? []
    if (path) assert.ok(existsSync(join(root, path)), path)
  }
})

test('nothing may be done but reading, and signing where it is published', () => {
  for (const [file, { permissions }] of Object.entries(workflows))
    assert.deepEqual(permissions, { contents: 'read' }, file)
  for (const { where, permissions } of jobs) {
    const wanted = where === 'release.yml: publish' ? { contents: 'read', 'id-token': 'write' } : undefined
    assert.deepEqual(permissions, wanted, where)
  }
  assert.doesNotMatch(JSON.stringify(workflows), /secrets\./)
  for (const { where, uses, with: given } of steps) {
    if (uses?.startsWith('actions/checkout@')) assert.equal(given?.['persist-credentials'], false, where)
  }
})

test('actions are GitHub’s own, pinned by commit with the version beside it, and every job ends', () => {
  const pinned = new Map()
  for (const name of Object.keys(workflows)) {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n')
    for (const line of lines.filter(text => /^\s*(?:- )?uses: /.test(text) && !text.includes('uses: ./'))) {
      const found = /uses: (?<action>actions\/[\w-]+)@(?<pin>[\da-f]{40} # v\d+\.\d+\.\d+)$/.exec(line)
      assert.ok(found, `${name}: ${line.trim()}`)
      const { action, pin } = found.groups
      assert.equal(pinned.get(action) ?? pin, pin, action)
      pinned.set(action, pin)
    }
  }
  assert.equal(pinned.size, 4)
  for (const job of jobs) assert.ok(job.uses || job['timeout-minutes'] > 0, job.where)
})

test('every platform is built, and tried on its own architecture', () => {
  const names = platforms()
    .map(({ name }) => name)
    .toSorted()
  const built = release.build.strategy.matrix.include
  assert.deepEqual(built.map(({ platform }) => platform).toSorted(), names)
  assert.deepEqual(built.map(({ target }) => target).toSorted(), manifest.napi.targets.toSorted())
  const tried = release.try.strategy.matrix.include
  assert.deepEqual([...new Set(tried.map(({ platform }) => platform))].toSorted(), names)
  for (const { platform, runner, image } of tried) {
    assert.equal(/-arm|macos-15$/.test(runner), platform.includes('arm64'), platform)
    assert.equal(image?.includes('alpine') ?? false, platform.endsWith('musl'), platform)
  }
})

test('each platform is linked against the libc that it names, with both supervisors', () => {
  for (const { platform, target, cross } of release.build.strategy.matrix.include) {
    const wanted = target.endsWith('-musl') ? '--cross zig' : target.endsWith('-gnu') ? '--cross napi' : undefined
    assert.equal(cross, wanted, platform)
  }
  const commands = release.build.steps.map(({ run }) => run)
  assert.ok(
    commands.includes('npm run build -- --target ${{ matrix.target }} ${{ matrix.cross }} --embedded --check'),
    commands.join('\n'),
  )
})

/** The jobs that have ended when a job of the release begins. */
function before(name) {
  const needed = [release[name].needs ?? []].flat()
  return [...new Set([...needed, ...needed.flatMap(before)])]
}

const handedOver = (job, action) =>
  (job.steps ?? []).filter(({ uses }) => uses?.startsWith(`actions/${action}@`)).map(step => step.with)

test('what a job takes was made by one before it, and all that is made is taken', () => {
  const taken = new Set()
  for (const [name, job] of Object.entries(release)) {
    const there = before(name).flatMap(other => handedOver(release[other], 'upload-artifact').map(made => made.name))
    for (const { name: one, pattern } of handedOver(job, 'download-artifact')) {
      const found = there.filter(made => made === one || (pattern && made.startsWith(pattern.replace(/\*$/, ''))))
      assert.equal(found.length, 1, `${name} takes ${one ?? pattern}; before it there are ${there.join(', ')}`)
      taken.add(found[0])
    }
  }
  const made = Object.values(release).flatMap(job => handedOver(job, 'upload-artifact'))
  assert.deepEqual([...taken].toSorted(), made.map(({ name }) => name).toSorted())
  for (const { name, path, 'if-no-files-found': otherwise } of made)
    assert.equal(otherwise, 'error', `${name}: ${path}`)
  // The addon is found at the root again, where its package looks for it.
  const addon = made.find(({ name }) => name.startsWith('addon-')).path
  const names = platforms().map(({ manifest }) => manifest.main)
  const { include } = release.build.strategy.matrix
  const paths = include.map(({ platform }) => addon.replace('${{ matrix.platform }}', platform))
  assert.deepEqual(paths.toSorted(), names.toSorted())
})

test('the package is made and installed whether or not it is published', () => {
  for (const name of ['build', 'try', 'package', 'install']) assert.equal(release[name].if, undefined, name)
  const commands = name => release[name].steps.flatMap(({ run = [] }) => run)
  assert.ok(commands('package').includes('npm run publish:packed -- --from packed --dry-run'))
  assert.match(commands('install').join('\n'), /node:\d+-alpine npm run try:packed -- --from packed/)
  assert.ok(before('install').includes('package'))
})

test('Bun tries each libc on each architecture of Linux', () => {
  const tried = release.try.strategy.matrix.include.filter(({ image }) => image?.startsWith('oven/bun:'))
  const { bun } = manifest.engines
  for (const { image, command } of tried) {
    assert.equal(command, 'bun scripts/try.mjs')
    assert.equal(`>=${/:([\d.]+)-/.exec(image)[1]}`, bun, image)
  }
  const names = tried.map(({ platform }) => platform)
  const linux = platforms().filter(({ manifest: { os } }) => os[0] === 'linux')
  assert.deepEqual(names.toSorted(), linux.map(({ name }) => name).toSorted())
  assert.ok(release.try.steps.some(({ run = '' }) => run.endsWith("${{ matrix.command || 'npm run try' }}")))
})

test('nothing is published that was not tested, built, tried and installed, and nothing but that', () => {
  assert.deepEqual(before('publish').toSorted(), ['build', 'install', 'package', 'supervisors', 'test', 'try'])
  assert.deepEqual([release.publish.if, release.publish.environment], ["startsWith(github.ref, 'refs/tags/v')", 'npm'])
  assert.equal(release.test.uses, './.github/workflows/ci.yml')
  const runs = release.publish.steps.flatMap(({ run = [] }) => run)
  assert.equal(runs.length, 2)
  assert.match(runs[0], /GITHUB_REF_NAME/)
  // In a workflow that is with provenance: publish.test.mjs.
  assert.equal(runs[1], 'npm run publish:packed -- --from packed')
  const { needs, if: when } = workflows['ci.yml'].jobs['ci-pass']
  assert.deepEqual([needs, when], [['test'], 'always()'])
})

test('the compiler is the one of Cargo.toml', () => {
  const [, version] = readFileSync(join(root, 'Cargo.toml'), 'utf8').match(/^rust-version = "(.*)"$/m)
  for (const [file, { env }] of Object.entries(workflows)) assert.equal(env.RUST, version, file)
})
