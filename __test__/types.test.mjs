import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { PROGRAMS, projectOf } from './support/migrating/project.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const root = dirname(here)
const read = (...path) => readFileSync(join(...path), 'utf8')
const { ERROR_CODES } = createRequire(import.meta.url)('../js/errors.cjs')

// Starting the compiler takes seconds on a busy machine.
const SLOW = { timeout: 120_000 }

const STRICT = '--noEmit --strict --exactOptionalPropertyTypes --skipLibCheck false --target es2022'
const NODENEXT = '--module nodenext --moduleResolution nodenext'
const FILES = ['types.test-d.mts', 'types.test-d.cts']

const SETTINGS = {
  'NodeNext with the DOM': `${NODENEXT} --lib es2022,dom --types`,
  'NodeNext with Node’s types': `${NODENEXT} --lib es2022 --types node`,
  'NodeNext with esnext and the DOM': `${NODENEXT} --lib esnext,dom --types`,
  'bundler resolution': '--module preserve --moduleResolution bundler --lib es2022,dom --types',
}

/** What the compiler says; empty when it is content. */
function compile(settings, files) {
  const list = settings.endsWith('--types') ? [...settings.split(' '), ''] : settings.split(' ')
  const args = [
    join(root, 'node_modules/typescript/bin/tsc'),
    '--ignoreConfig',
    ...STRICT.split(' '),
    ...list,
    ...files,
  ]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: here, encoding: 'utf8' })
  return status === 0 ? '' : stdout + stderr
}

for (const [name, settings] of Object.entries(SETTINGS)) {
  test(`the declarations hold under ${name}`, SLOW, () => assert.equal(compile(settings, FILES), ''))
}

for (const name of ['NodeNext with Node’s types', 'bundler resolution']) {
  test(`programs that were written for version 0.2.1 compile strictly under ${name}`, SLOW, context => {
    const folder = mkdtempSync(join(tmpdir(), 'sandbox-types-'))
    context.after(() => rmSync(folder, { recursive: true }))
    const settings = SETTINGS[name].replace('es2022,dom --types', 'es2022 --types node')
    const files = PROGRAMS.map(program => projectOf(join(folder, program), program))
    assert.equal(compile(settings, files), '')
  })
}

test('a program with neither the DOM nor Node’s types can use them', SLOW, () => {
  // Zod's own declarations name `URL` and `File`, so only what this package adds is asked for.
  const said = compile(`${NODENEXT} --lib es2022 --types`, ['../index.d.ts'])
  assert.deepEqual(
    said.split('\n').filter(line => /^(\.\.\/)?index\.d\.ts/.test(line)),
    [],
  )
})

test('the declarations for CommonJS are a copy', () => {
  assert.equal(read(root, 'index.d.cts'), read(root, 'index.d.ts'))
  const body = name => read(here, name).split('\n').slice(1).join('\n').replaceAll('../index.cjs', '../index.js')
  assert.equal(body('types.test-d.cts'), body('types.test-d.mts'))
})

test('what is declared is what is exported, and the codes are the codes', () => {
  const text = read(root, 'index.d.ts')
  const declared = [...text.matchAll(/^export declare (?:function|const|class) (\w+)/gm)]
    .map(([, name]) => name)
    .toSorted()
  const exported = [...read(root, 'index.cjs').matchAll(/^exports\.(\w+) =/gm)].map(([, name]) => name).toSorted()
  const module = [...read(root, 'index.js').matchAll(/^export const (\w+) =/gm)].map(([, name]) => name).toSorted()
  assert.equal(declared.length, 12)
  assert.deepEqual([exported, module], [declared, declared])
  const union = text.slice(text.indexOf('export type SandboxErrorCode ='), text.indexOf('/** Every error of'))
  assert.deepEqual(
    [...union.matchAll(/\| '(\w+)'/g)].map(([, code]) => code),
    [...ERROR_CODES],
  )
})

test('every documented quota has its default', () => {
  const { allowlistProxyQuotaDefaults } = createRequire(import.meta.url)('../js/defaults.cjs')
  const text = read(root, 'index.d.ts')
  const quotas = text.slice(text.indexOf('export interface ProxyQuotas'), text.indexOf('/** What the network lets'))
  const units = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }
  const documented = [...quotas.matchAll(/Default ([\d,]+)(?: (KiB|MiB|GiB))?\. \*\/\s+(\w+): number/g)]
  assert.deepEqual(
    Object.fromEntries(
      documented.map(([, digits, unit, name]) => [name, Number(digits.replaceAll(',', '')) * (units[unit] ?? 1)]),
    ),
    { ...allowlistProxyQuotaDefaults },
  )
})
