#!/usr/bin/env node
// In place of `cargo` where a release of the addon is built: with link-time optimisation for what is linked.
//
// cargo gives a library that other crates may use too (the tests use ours) no link-time optimisation, whatever its profile
// says; a build of the crate type that is wanted gets it. With identical functions folded (`build.rs`) it is a tenth smaller.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Programs that build, by the verb that napi's command line gives cargo, and how they are told to build one crate type. */
const BUILDERS = { build: ['cargo', 'rustc'], zigbuild: ['cargo-zigbuild', 'rustc'] }

/** What to run for what cargo was to be called with, the program first. Anything but a build is cargo's own business. */
export function commandFor([verb, ...args]) {
  if (!Object.hasOwn(BUILDERS, verb)) return ['cargo', verb, ...args]
  return [...BUILDERS[verb], '--lib', '--crate-type', 'cdylib', ...args.filter(arg => arg !== '--lib')]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [program, ...args] = commandFor(process.argv.slice(2))
  const { status, error } = spawnSync(program, args, { stdio: 'inherit' })
  if (error) console.error(`${program} could not be started: ${error.message}`)
  process.exitCode = status ?? 1
}
