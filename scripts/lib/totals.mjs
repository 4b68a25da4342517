// What the test runners say at their end, as `{ passed, failed }`.

import { stripVTControlCharacters } from 'node:util'

// Each counts one kind of line. A suite that Node could not run to its end counts as cancelled, a file that bun could not
// load as an error: both are failures.
const LINES = {
  cargo: { passed: /^test result: \w+\. (\d+) passed/gm, failed: /^test result: .*; (\d+) failed/gm },
  bun: { passed: /^ *(\d+) pass$/gm, failed: /^ *(\d+) (?:fail|errors?)$/gm },
  node: { passed: /^(?:#|ℹ) pass (\d+)$/gm, failed: /^(?:#|ℹ) (?:fail|cancelled) (\d+)$/gm },
}

/**
 * The totals in what `runner` (`cargo`, `bun` or `node`) wrote before it ended with `code`. A runner that failed without
 * a failed test, or that ran no test, counts as one failure.
 */
export function totalsOf(runner, { code, output }) {
  const text = stripVTControlCharacters(output)
  const passed = sum(text, LINES[runner].passed)
  const failed = sum(text, LINES[runner].failed)
  const silent = failed === 0 && (code !== 0 || passed === 0)
  return { passed, failed: silent ? 1 : failed }
}

/** One check that has no tests of its own. */
export function single({ code }) {
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
}

/** All of them together. */
export function add(all) {
  return all.reduce((a, b) => ({ passed: a.passed + b.passed, failed: a.failed + b.failed }), { passed: 0, failed: 0 })
}

function sum(text, line) {
  return [...text.matchAll(line)].reduce((total, [, number]) => total + Number(number), 0)
}
