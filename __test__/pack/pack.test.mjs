// What is published, installed as users install it, from the packed files.

import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { BUNDLE, isForThisPlatform, pack, platforms } from '../../scripts/pack.mjs'
import { ROOT } from '../../scripts/lib/run.mjs'
import { tryPacked } from '../../scripts/try-packed.mjs'
import { asCommonJs, earlierUsage, makeProject, readmeExample, run, runWithEngine, sizesOf, tool } from './consumer.mjs'

const { PLATFORMS } = createRequire(import.meta.url)('../../js/load.cjs')
const MAIN = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const PACKED_PLATFORM = platforms().find(({ manifest }) => isForThisPlatform(manifest))
const out = mkdtempSync(join(tmpdir(), 'sandbox-docker-packed-'))
const folders = [out]
let packed

before(async () => {
  packed = await pack({ out })
})

after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

describe('platform packages', () => {
  // Rust's name of a target, and the platform package's part of the name, os, cpu and libc.
  const TARGETS = {
    'x86_64-unknown-linux-gnu': ['linux-x64-gnu', 'linux', 'x64', 'glibc'],
    'aarch64-unknown-linux-gnu': ['linux-arm64-gnu', 'linux', 'arm64', 'glibc'],
    'x86_64-unknown-linux-musl': ['linux-x64-musl', 'linux', 'x64', 'musl'],
    'aarch64-unknown-linux-musl': ['linux-arm64-musl', 'linux', 'arm64', 'musl'],
    'x86_64-apple-darwin': ['darwin-x64', 'darwin', 'x64', undefined],
    'aarch64-apple-darwin': ['darwin-arm64', 'darwin', 'arm64', undefined],
  }

  it('are those of the targets', () => {
    assert.deepEqual(MAIN.napi.targets.toSorted(), Object.keys(TARGETS).toSorted())
    const names = platforms().map(({ name }) => name)
    assert.deepEqual(
      names.toSorted(),
      Object.values(TARGETS)
        .map(([name]) => name)
        .toSorted(),
    )
    assert.deepEqual(PLATFORMS.toSorted(), names.toSorted())
  })

  for (const [folder, os, cpu, libc] of Object.values(TARGETS)) {
    it(`${folder} has the main package's version and only its own addon`, () => {
      const { manifest } = platforms().find(({ name }) => name === folder)
      const addon = `sandbox-docker.${folder}.node`
      assert.equal(manifest.name, `${MAIN.name}-${folder}`)
      assert.equal(manifest.version, MAIN.version)
      assert.deepEqual([manifest.os, manifest.cpu, manifest.libc], [[os], [cpu], libc && [libc]])
      assert.deepEqual([manifest.main, manifest.files], [addon, [addon]])
      // Nothing runs where it is installed.
      assert.equal(manifest.scripts, undefined)
    })
  }

  it('hold the addon, a README and the licence', () => {
    assert.equal(packed.platforms.length, 1)
    const files = listing(packed.platforms[0])
    assert.deepEqual(files, ['LICENSE', 'README.md', 'package.json', PACKED_PLATFORM.manifest.main].toSorted())
  })
})

describe('the main package', () => {
  it('depends on each packed platform package, at exactly its own version', () => {
    const manifest = manifestOf(packed.main)
    assert.deepEqual(manifest.optionalDependencies, { [PACKED_PLATFORM.manifest.name]: MAIN.version })
    assert.deepEqual(manifest.peerDependencies, { zod: '^4.4' })
    assert.equal(manifest.dependencies, undefined)
    assert.equal(manifest.scripts, undefined)
    assert.equal(manifest.devDependencies, undefined)
  })

  it('is no larger than it was measured, with its platform package', t => {
    for (const path of [packed.main, ...packed.platforms]) {
      const { packed: bytes, unpacked, files } = sizesOf(path)
      t.diagnostic(`${basename(path)}: ${bytes} bytes, unpacked ${unpacked} in ${files} files`)
    }
    assert.ok(sizesOf(packed.main).packed < 160 * 1024)
  })

  it('holds its entry points, js/ as one file, and what README names, and nothing of the repository besides', () => {
    const files = listing(packed.main)
    const folders = ['docs', 'docker', 'examples']
    const own = MAIN.files.filter(name => !folders.includes(name)).map(name => (name === 'js' ? BUNDLE : name))
    const top = ['LICENSE', 'README.md', 'package.json', ...own]
    assert.deepEqual(
      files.filter(name => !folders.includes(name.split('/')[0])),
      top.toSorted(),
    )
    for (const folder of folders) {
      const inside = readdirSync(join(ROOT, folder)).map(name => `${folder}/${name}`)
      assert.deepEqual(files.filter(name => name.startsWith(`${folder}/`)).toSorted(), inside.toSorted())
    }
    const named = readFileSync(join(ROOT, 'README.md'), 'utf8').match(/\b(?:docs|docker|examples|benches)\/[\w./-]*\w/g)
    assert.ok(named.length > 10)
    for (const name of named) assert.ok(files.includes(name), name)
  })
})

it('is installed with the one platform package that fits, by the script of the release', async () => {
  const name = PACKED_PLATFORM.manifest.name
  const packages = [
    { name, path: packed.platforms[0] },
    { name: MAIN.name, path: packed.main },
  ]
  assert.deepEqual(await tryPacked(packages), [name])
})

for (const installer of ['npm', 'bun']) {
  describe(`installed by ${installer}`, () => {
    let folder
    const { code, output } = readmeExample()

    before(() => {
      folder = makeProject(installer, packed)
      folders.push(folder)
    })

    it('gives a first result, from nothing and with what the installer kept', t => {
      const cache = mkdtempSync(join(tmpdir(), 'sandbox-docker-cache-'))
      folders.push(cache)
      for (const state of ['cold', 'warm']) {
        const start = performance.now()
        const project = makeProject(installer, packed, cache)
        folders.push(project)
        const installed = performance.now()
        writeFileSync(join(project, 'example.mjs'), code)
        assert.equal(runWithEngine(process.execPath, ['example.mjs'], project), output)
        const seconds = (from, to) => ((to - from) / 1000).toFixed(1)
        const end = performance.now()
        t.diagnostic(
          `${installer}, ${state} cache: ${seconds(start, end)} s to the first result, ${seconds(start, installed)} of them installing`,
        )
      }
    })

    it("runs README's first example as an ES module in Node", () => {
      writeFileSync(join(folder, 'example.mjs'), code)
      assert.equal(runWithEngine(process.execPath, ['example.mjs'], folder), output)
    })

    it("runs README's first example as CommonJS in Node", () => {
      writeFileSync(join(folder, 'example.cjs'), asCommonJs(code))
      assert.equal(runWithEngine(process.execPath, ['example.cjs'], folder), output)
    })

    it("runs README's first example in Bun", () => {
      writeFileSync(join(folder, 'example.ts'), code)
      assert.equal(runWithEngine(tool('bun'), ['example.ts'], folder), output)
    })

    it("runs README's first example as a single file that Bun made, without the packages", () => {
      writeFileSync(join(folder, 'example.ts'), code)
      const alone = mkdtempSync(join(tmpdir(), 'sandbox-docker-alone-'))
      folders.push(alone)
      const program = join(alone, 'example')
      run(tool('bun'), ['build', '--compile', 'example.ts', '--outfile', program], folder)
      const packages = join(folder, 'node_modules')
      renameSync(packages, `${packages}.away`)
      try {
        assert.equal(runWithEngine(program, [], alone), output)
      } finally {
        renameSync(`${packages}.away`, packages)
      }
    })

    for (const runtime of ['node', 'bun']) {
      const program = runtime === 'node' ? process.execPath : tool('bun')

      it(`runs the usage that the README of 0.2.1 shows, in ${runtime}`, () => {
        const sdk = join(folder, 'node_modules/@zhivex-ai/sdk')
        if (!existsSync(sdk)) symlinkSync(join(ROOT, '__test__/support/migrating/sdk'), sdk)
        writeFileSync(join(folder, 'usage.mjs'), earlierUsage())
        assert.equal(
          runWithEngine(program, ['usage.mjs'], folder),
          String.raw`waiting_approval completed [["README.md","src"],"# workspace\n",0,"it works\n"]` + '\n',
        )
      })

      it(`names the package that holds the addon where it is missing, in ${runtime}`, () => {
        const { name, code, message } = withoutAddon(folder, program, at => rmSync(at, { recursive: true }))
        assert.deepEqual([name, code], ['SandboxError', 'UNSUPPORTED'])
        const missing = `${PACKED_PLATFORM.manifest.name}@${MAIN.version}`
        assert.ok(message.includes(`is missing: it comes with ${missing}`), message)
        assert.ok(message.includes(`npm install ${missing}, or bun add ${missing}`), message)
        assert.ok(message.includes('not with --omit=optional'), message)
      })

      it(`says why an addon that is there could not be loaded, in ${runtime}`, () => {
        const { name, code, message, cause } = withoutAddon(folder, program, at =>
          writeFileSync(join(at, PACKED_PLATFORM.manifest.main), 'rubbish'),
        )
        assert.deepEqual([name, code], ['SandboxError', 'UNSUPPORTED'])
        // The loader's own words: glibc's or musl's.
        assert.match(message, /was found but could not be loaded \(.*\.node: .*(?:short|ELF|format).*\)/)
        assert.ok(message.includes(`${PACKED_PLATFORM.manifest.name}@${MAIN.version}`), message)
        assert.match(cause, /Cannot find native binding/)
      })
    }

    it('has one class of each error for import and require', () => {
      const names =
        "['SandboxError', 'ConflictError'].map(name => imported[name] === require('@zhivex-ai/sandbox-docker')[name])"
      const lines = [
        "import { createRequire } from 'node:module'",
        "import * as imported from '@zhivex-ai/sandbox-docker'",
        'const require = createRequire(import.meta.url)',
        `console.log(JSON.stringify(${names}))`,
      ]
      writeFileSync(join(folder, 'classes.mjs'), lines.join('\n'))
      assert.equal(run(process.execPath, ['classes.mjs'], folder), '[true,true]\n')
      assert.equal(run(tool('bun'), ['classes.mjs'], folder), '[true,true]\n')
    })

    // README's example is the code of the strict users below.
    for (const [file, module, resolution] of [
      ['strict.mts', 'nodenext', 'nodenext'],
      ['strict.cts', 'nodenext', 'nodenext'],
      ['strict.ts', 'esnext', 'bundler'],
    ]) {
      it(`compiles strictly from ${file} with ${resolution} resolution`, () => {
        const body = code.replace(/^import .*$/gm, '')
        const imports = code.match(/^import .*$/gm).join('\n')
        writeFileSync(join(folder, file), `${imports}\nexport async function main() {\n${body}\n}\n`)
        const types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
        const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--target', 'es2022']
        const args = [...strict, ...types, '--module', module, '--moduleResolution', resolution, file]
        assert.equal(run(tool('tsc'), args, folder), '')
      })
    }
  })
}

/** What loading the package throws after `spoil` was called with a copy of the platform package, which is put back. */
function withoutAddon(folder, program, spoil) {
  const at = join(folder, 'node_modules', PACKED_PLATFORM.manifest.name)
  renameSync(at, `${at}.away`)
  try {
    cpSync(`${at}.away`, at, { recursive: true })
    spoil(at)
    const lines = [
      'try {',
      `  require('${MAIN.name}')`,
      '} catch ({ name, code, message, cause }) {',
      '  console.log(JSON.stringify({ name, code, message, cause: cause.message }))',
      '}',
    ]
    writeFileSync(join(folder, 'spoilt.cjs'), lines.join('\n'))
    return JSON.parse(run(program, ['spoilt.cjs'], folder))
  } finally {
    rmSync(at, { recursive: true, force: true })
    renameSync(`${at}.away`, at)
  }
}

function listing(path) {
  const names = run('tar', ['-tzf', path], out).trim().split('\n')
  return names.map(name => name.replace('package/', '')).toSorted()
}

function manifestOf(path) {
  return JSON.parse(run('tar', ['-xzOf', path, 'package/package.json'], out))
}
