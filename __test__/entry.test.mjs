// The two entries, tried in copies of the package outside its own tree, as an application would have them.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'

// Each starts processes, which takes seconds on a busy machine.
const SLOW = { timeout: 120_000 }

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const made = []
after(() => made.forEach(directory => rmSync(directory, { recursive: true, force: true })))

const NAMES =
  'ConflictError SandboxError allowlistProxyQuotaDefaults createDockerSandboxEnvironment createDockerSandboxTools ' +
  'createFileLeaseStore createFileSnapshotStore createMemoryDockerClient createMemoryLeaseStore ' +
  'createMemorySnapshotStore createNodeDockerClient dockerSandboxSecurityDefaults'

function write(directory, files) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
}

const PACKAGE = {
  name: '@zhivex-ai/sandbox-docker',
  version: '0.0.0',
  type: 'module',
  exports: { '.': { import: './index.js', require: './index.cjs' } },
}

/** The package with a binding in JavaScript, in `directory`. */
function putPackage(directory) {
  mkdirSync(directory, { recursive: true })
  for (const name of ['index.js', 'index.cjs', 'js'])
    cpSync(join(root, name), join(directory, name), { recursive: true })
  write(directory, {
    'package.json': JSON.stringify(PACKAGE),
    'binding.cjs': `
      const failure = { failure: { code: 'CONFLICT', message: 'held by another' } }
      module.exports = {
        abi: () => 9, engineVariables: () => [], errorCodes: () => [], CancelToken: class { cancel() {} },
        securityDefaultsJson: () => '{}', memoryLeaseStore: () => ({}), memorySnapshotStore: () => ({}),
        prepareEnvironment: () => ({
          manifestJson: () => '{"id":"e"}', seal: () => 'sha256:0', acquire: async () => failure, close: async () => null
        })
      }`,
  })
}

/** An application that has installed the package, and zod if it is to. */
function application({ zod = true, core = false, packageAt } = {}) {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'sandbox-entry-')))
  made.push(directory)
  write(directory, { 'package.json': '{"name":"app"}' })
  const place = join(directory, 'node_modules/@zhivex-ai/sandbox-docker')
  if (packageAt) {
    putPackage(packageAt)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(packageAt, place, 'dir')
  } else putPackage(place)
  if (zod) symlinkSync(join(root, 'node_modules/zod'), join(directory, 'node_modules/zod'), 'dir')
  if (core) {
    write(join(directory, 'node_modules/@zhivex-ai/core'), {
      'package.json': '{"name":"@zhivex-ai/core","type":"module","exports":{".":{"import":"./dist/core.js"}}}',
      'dist/core.js': `export class ConflictError extends Error { name = 'ConflictError' }`,
    })
  }
  return directory
}

function run(directory, name, text, { cwd = directory, command = [name] } = {}) {
  write(directory, { [name]: text })
  return execFileSync(process.execPath, command, { cwd, encoding: 'utf8' }).trim()
}

const IMPORT = `import * as all from '@zhivex-ai/sandbox-docker'
import { ${NAMES.replaceAll(' ', ', ')} } from '@zhivex-ai/sandbox-docker'
`

test('both entries have the same names and the same classes', SLOW, () => {
  const directory = application()
  const text = `${IMPORT}
    import { createRequire } from 'node:module'
    const required = createRequire(import.meta.url)('@zhivex-ai/sandbox-docker')
    const names = Object.keys(all).sort()
    const same = names.every(name => required[name] === all[name]) && names.join() === Object.keys(required).sort().join()
    console.log(names.join(' ') + ' ' + same + ' ' + (required.SandboxError === SandboxError))`
  assert.equal(run(directory, 'app.mjs', text), `${NAMES} true true`)
  const common = `const { ${NAMES.replaceAll(' ', ', ')} } = require('@zhivex-ai/sandbox-docker')
    console.log(createDockerSandboxTools().sandbox_exec.name, new SandboxError('LIMIT', 'm').code)`
  assert.equal(run(directory, 'app.cjs', common), 'sandbox_exec LIMIT')
})

const CONFLICT = `
  const environment = createDockerSandboxEnvironment({ workspace: { id: 'w' } })
  const error = await environment.acquire({ runId: 'r' }).catch(error => error)
  console.log([error.name, error.message, error instanceof ConflictError, error instanceof Theirs, error.constructor === ConflictError].join())`

test('a conflict is the runtime’s own class where the application has the runtime', SLOW, () => {
  const theirs = `import { ConflictError as Theirs } from '@zhivex-ai/core'\n`
  assert.equal(
    run(application({ core: true }), 'app.mjs', theirs + IMPORT + CONFLICT),
    'ConflictError,held by another,true,true,false',
  )
  assert.equal(
    run(application(), 'app.mjs', `class Theirs {}\n${IMPORT}${CONFLICT}`),
    'ConflictError,held by another,true,false,true',
  )
})

test('the runtime is found from the application when the package is linked from elsewhere', SLOW, () => {
  const elsewhere = realpathSync(mkdtempSync(join(tmpdir(), 'sandbox-linked-')))
  made.push(elsewhere)
  const directory = application({ core: true, packageAt: join(elsewhere, 'sandbox-docker') })
  const theirs = `import { ConflictError as Theirs } from '@zhivex-ai/core'\n`
  const text = theirs + IMPORT + CONFLICT
  const expected = 'ConflictError,held by another,true,true,false'
  assert.equal(run(directory, 'app.mjs', text), expected)
  // By the script that was started, and by the working directory.
  assert.equal(run(directory, 'app.mjs', text, { cwd: elsewhere, command: [join(directory, 'app.mjs')] }), expected)
})

test('tools without zod say what is missing, with zod in the working directory they work', SLOW, () => {
  const text = `${IMPORT}
    try { console.log(Object.keys(createDockerSandboxTools()).length) }
    catch (error) { console.log(error.code, error.message) }`
  const without = application({ zod: false })
  assert.equal(
    run(without, 'app.mjs', text),
    'UNSUPPORTED The sandbox tools need zod 4, which is not installed: add "zod".',
  )
  assert.equal(run(without, 'app.mjs', text, { cwd: root, command: [join(without, 'app.mjs')] }), '4')
  write(join(without, 'node_modules/zod'), {
    'package.json': '{"name":"zod","version":"3.25.0","main":"i.js"}',
    'i.js': 'exports.object = () => {}',
  })
  assert.match(run(without, 'app.mjs', text), /^UNSUPPORTED The sandbox tools need zod 4; the installed zod is older/)
})

test('a bundle has one copy of everything and the runtime’s class, also where there is no runtime', SLOW, () => {
  const bun = join(root, 'node_modules/.bin/bun')
  const text = `${IMPORT}
    const environment = createDockerSandboxEnvironment({ workspace: { id: 'w' } })
    const error = await environment.acquire({ runId: 'r' }).catch(error => error)
    const found = await import('@zhivex-ai/core').catch(() => ({}))
    console.log(createDockerSandboxTools().sandbox_list.name, error instanceof ConflictError, error.constructor === (found.ConflictError ?? ConflictError))`
  for (const core of [false, true]) {
    const directory = application({ core })
    write(directory, { 'app.mjs': text })
    execFileSync(bun, ['build', 'app.mjs', '--target=node', '--outfile=out/bundle.mjs'], {
      cwd: directory,
      stdio: 'pipe',
    })
    rmSync(join(directory, 'node_modules'), { recursive: true })
    assert.equal(
      execFileSync(process.execPath, ['out/bundle.mjs'], { cwd: directory, encoding: 'utf8' }).trim(),
      'sandbox_list true true',
    )
  }
})
