// What the test runners say at their end, as `{ passed, failed, failures? }`.

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
 * a failed test, or that ran no test, counts as one failure. Where tests failed, `failures` has what was said of them.
 */
export function totalsOf(runner, { code, output }) {
  const text = stripVTControlCharacters(output)
  const passed = sum(text, LINES[runner].passed)
  const failed = sum(text, LINES[runner].failed)
  const silent = failed === 0 && (code !== 0 || passed === 0)
  const total = { passed, failed: silent ? 1 : failed }
  return failed > 0 ? { ...total, failures: failuresOf(runner, { output }) } : total
}

/** The most lines that `failuresOf` keeps: a message of any size must not push the totals out of a log's last part. */
const MAX_FAILURE_LINES = 120

/**
 * What `runner` wrote of its failed tests, in its own words: names and messages, without the tests that passed. Empty
 * when none failed.
 */
export function failuresOf(runner, { output }) {
  const text = stripVTControlCharacters(output)
  const lines = FAILURES[runner](text).filter(line => line.trim() !== '')
  if (lines.length <= MAX_FAILURE_LINES) return lines
  return [...lines.slice(0, MAX_FAILURE_LINES), `… and ${lines.length - MAX_FAILURE_LINES} lines more above`]
}

const FAILURES = {
  // Each binary ends with the failed tests' output under `failures:`, then with their names under another `failures:`.
  cargo: text => [...text.matchAll(/^failures:\n([^]*?)^test result:/gm)].flatMap(([, part]) => part.split('\n')),
  node: text => [...text.matchAll(/^✖ failing tests:\n([^]*)/gm)].flatMap(([, part]) => part.split('\n')),
  bun: failuresOfBun,
}

// Bun writes a test's message before its `(fail)`, and one line that says why after it.
function failuresOfBun(text) {
  const found = []
  let file = ''
  let since = []
  let said = false
  for (const line of text.split('\n')) {
    if (/^\S+\.test\.[cm]?js:$/.test(line)) {
      file = line
      since = []
    } else if (/^\((?:pass|skip|todo)\)/.test(line)) {
      since = []
    } else if (line.startsWith('(fail)')) {
      found.push(file, ...since, line)
      since = []
      said = true
      continue
    } else if (said && line.startsWith('  ^')) {
      found.push(line)
    } else {
      since.push(line)
    }
    said = false
  }
  return found
}

/** One check that has no tests of its own. */
export function single({ code }) {
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
}

/** All of them together. */
export function add(all) {
  const total = { passed: 0, failed: 0 }
  for (const { passed, failed, failures } of all) {
    total.passed += passed
    total.failed += failed
    if (failures) total.failures = [...(total.failures ?? []), ...failures]
  }
  return total
}

function sum(text, line) {
  return [...text.matchAll(line)].reduce((total, [, number]) => total + Number(number), 0)
}
