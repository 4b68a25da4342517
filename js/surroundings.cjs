// @ts-check
'use strict'

/**
 * What the process says of engines, for where no socket is named. Read when a client is made, and here: what a program
 * sets in `process.env` does not reach native code under Bun or in a worker.
 * @param {import('./native.cjs').NativeBinding} binding
 * @returns {Record<string, string>}
 */
function surroundingsOf(binding) {
  const found = binding.engineVariables().map(name => [name, process.env[name]])
  return Object.fromEntries(found.filter(([, value]) => value !== undefined))
}

module.exports = { surroundingsOf }
