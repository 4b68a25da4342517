// `npm test`: everything that must hold, from nothing, ending with one line `N passed, N failed`.
//
//   node scripts/test.mjs [--only rust,bun]   some stages and what they need; their names are in lib/stages.mjs

import { parseArgs } from 'node:util'
import { STAGES } from './lib/stages.mjs'
import { add } from './lib/totals.mjs'

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const wanted = values.only ? values.only.split(',') : Object.keys(STAGES)
const unknown = wanted.filter(name => !STAGES[name])
if (unknown.length > 0) {
  console.error(`No stage ${unknown.join(', ')}; there are ${Object.keys(STAGES).join(', ')}`)
  process.exit(2)
}

const results = new Map()
const order = inOrder(wanted)
const context = { env: [], stop: async () => {} }
for (const names of inPhases(order)) {
  if (STAGES[names[0]].lane === undefined) await record(names[0], { show: true })
  else await sideBySide(names)
}
await context.stop()
report()

/** Stages without a lane alone, neighbours with one together. */
function inPhases(names) {
  const phases = []
  for (const name of names) {
    const last = phases.at(-1)
    const joins = STAGES[name].lane !== undefined && last && STAGES[last[0]].lane !== undefined
    if (joins) last.push(name)
    else phases.push([name])
  }
  return phases
}

/** Lanes go on side by side, the stages of each one after the other. The first is watched; what others say is shown behind it. */
async function sideBySide(names) {
  const numbers = [...new Set(names.map(name => STAGES[name].lane))].toSorted((one, other) => one - other)
  const inLane = lane => names.filter(name => STAGES[name].lane === lane)
  const hidden = await Promise.all(numbers.map((lane, place) => runLane(inLane(lane), lane, place === 0)))
  for (const text of hidden.flat()) process.stdout.write(text)
}

/** What the stages said, where it is not shown meanwhile. */
async function runLane(names, lane, show) {
  const said = []
  for (const name of names) {
    const its = { env: context.env[lane], show, said: [] }
    await record(name, its)
    if (!show) said.push(`\n=== ${name}, beside the others\n`, ...its.said)
  }
  return said
}

async function record(name, its) {
  const start = Date.now()
  if (its.show) console.log(`\n=== ${name}`)
  results.set(name, { ...(await runStage(name, its)), seconds: (Date.now() - start) / 1000 })
}

async function runStage(name, its) {
  const missing = (STAGES[name].needs ?? []).filter(needed => results.get(needed).failed > 0)
  try {
    if (missing.length > 0) throw new Error(`not run: ${missing.join(', ')} failed`)
    return await STAGES[name].run(its, context)
  } catch (error) {
    console.error(`${name}: ${error.message}`)
    return { passed: 0, failed: 1, failures: [`${name}: ${error.message}`] }
  }
}

function inOrder(names) {
  const needed = new Set()
  const require = name => {
    for (const other of STAGES[name].needs ?? []) require(other)
    needed.add(name)
  }
  names.forEach(require)
  return Object.keys(STAGES).filter(name => needed.has(name))
}

function report() {
  console.log()
  for (const name of order) {
    const { passed, failed, seconds } = results.get(name)
    console.log(
      `${name.padEnd(8)} ${seconds.toFixed(1).padStart(7)} s  ${passed} ok${failed > 0 ? `, ${failed} FAILED` : ''}`,
    )
  }
  const { passed, failed, failures } = add([...results.values()])
  // Hours of output may lie between a failure and the end, and a log may keep only its end.
  if (failures) console.log(`\nWhat failed:\n${failures.join('\n')}`)
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 ? 1 : 0
}
