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

test('actions are GitHub’s own, pinned by their major tag or a commit, and every job ends', () => {
  for (const { where, uses } of steps) {
    if (uses) assert.match(uses, /^actions\/[\w-]+@(v\d+|[\da-f]{40})$/, where)
  }
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

test('nothing is published that was not tested, built and tried', () => {
  assert.deepEqual(release.publish.needs.toSorted(), ['build', 'test', 'try'])
  assert.deepEqual([release.publish.if, release.publish.environment], ["startsWith(github.ref, 'refs/tags/v')", 'npm'])
  assert.equal(release.test.uses, './.github/workflows/ci.yml')
  const { needs, if: when } = workflows['ci.yml'].jobs['ci-pass']
  assert.deepEqual([needs, when], [['test'], 'always()'])
})

test('the compiler is the one of Cargo.toml', () => {
  const [, version] = readFileSync(join(root, 'Cargo.toml'), 'utf8').match(/^rust-version = "(.*)"$/m)
  for (const [file, { env }] of Object.entries(workflows)) assert.equal(env.RUST, version, file)
})
