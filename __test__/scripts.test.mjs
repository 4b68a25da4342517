// The parts of scripts/ that could hide a failure: what the runners' last lines add up to.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { firstNetwork } from '../scripts/lib/address-pool.mjs'
import { add, failuresOf, single, totalsOf } from '../scripts/lib/totals.mjs'

const CARGO = `
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
`
const BUN = `
__test__/api.test.js:
(pass) says 9 fail [0.10ms]

 41 pass
 1 fail
 2 errors
 77 expect() calls
`
const NODE = 'ℹ tests 9\nℹ suites 2\nℹ pass 5\nℹ fail 3\nℹ cancelled 1\nℹ skipped 0\n'

describe('totals', () => {
  const cases = [
    ['cargo, over several binaries', 'cargo', 101, CARGO, { passed: 15, failed: 2 }],
    ['bun, files that could not be loaded too', 'bun', 1, BUN, { passed: 41, failed: 3 }],
    ['bun, a single error', 'bun', 1, ' 2 pass\n 0 fail\n 1 error\n', { passed: 2, failed: 1 }],
    ['node, what it cancelled too', 'node', 1, NODE, { passed: 5, failed: 4 }],
    ['node as TAP', 'node', 0, '# pass 7\n# fail 0\n# cancelled 0\n', { passed: 7, failed: 0 }],
    ['coloured', 'bun', 0, '\u001B[32m 4 pass\u001B[0m\n\u001B[2m 0 fail\u001B[0m\n', { passed: 4, failed: 0 }],
    ['a runner that died after its tests', 'bun', 139, ' 4 pass\n 0 fail\n', { passed: 4, failed: 1 }],
    ['a runner that ran nothing', 'node', 0, '# pass 0\n# fail 0\n', { passed: 0, failed: 1 }],
    ['a runner that said nothing', 'cargo', 0, '', { passed: 0, failed: 1 }],
  ]
  for (const [name, runner, code, output, expected] of cases) {
    it(name, () => {
      const { passed, failed } = totalsOf(runner, { code, output })
      assert.deepEqual({ passed, failed }, expected)
    })
  }

  it('count a check without tests once', () => {
    assert.deepEqual(single({ code: 0 }), { passed: 1, failed: 0 })
    assert.deepEqual(single({ code: 2 }), { passed: 0, failed: 1 })
  })

  it('are added up', () => {
    assert.deepEqual(add([]), { passed: 0, failed: 0 })
    assert.deepEqual(add([single({ code: 0 }), single({ code: 1 }), { passed: 5, failed: 2 }]), {
      passed: 6,
      failed: 3,
    })
  })
})

describe('failures', () => {
  const bun = `
__test__/a.test.mjs:
(pass) fine [0.10ms]
a warning of nobody

__test__/b.test.mjs:
(pass) fine too [0.10ms]
AssertionError: 1 == 2
(fail) wrong [34.56ms]
(fail) late [500.01ms]
  ^ this test timed out after 500ms.
(pass) after it [0.10ms]

 3 pass
 2 fail
`
  const cargo = `
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
it was 3

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored
`
  const node = '✔ a\n✖ b (2 ms)\nℹ fail 1\n\n✖ failing tests:\n\ntest at b.mjs:2:22\n✖ b (2 ms)\n  1 == 2\n'

  it('are what bun wrote before each and one line after', () => {
    assert.deepEqual(failuresOf('bun', { output: bun }), [
      '__test__/b.test.mjs:',
      'AssertionError: 1 == 2',
      '(fail) wrong [34.56ms]',
      '__test__/b.test.mjs:',
      '(fail) late [500.01ms]',
      '  ^ this test timed out after 500ms.',
    ])
  })

  it("are the end of cargo's and Node's output", () => {
    const lines = failuresOf('cargo', { output: cargo })
    assert.deepEqual(lines, ['---- b stdout ----', 'it was 3', 'failures:', '    b'])
    assert.deepEqual(failuresOf('node', { output: node }), ['test at b.mjs:2:22', '✖ b (2 ms)', '  1 == 2'])
  })

  it('are kept to a length, and added up', () => {
    const long = `✖ failing tests:\n${'x\n'.repeat(1000)}`
    assert.equal(failuresOf('node', { output: long }).length, 121)
    assert.deepEqual(
      add([{ passed: 0, failed: 1, failures: ['a'] }, single({ code: 0 }), { passed: 0, failed: 1, failures: ['b'] }]),
      { passed: 1, failed: 2, failures: ['a', 'b'] },
    )
  })
})

it("a private engine's default bridge is the first network of its block", () => {
  assert.equal(firstNetwork('10.231.8.0/21'), '10.231.8.1/28')
})
