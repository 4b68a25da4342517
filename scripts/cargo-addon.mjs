#!/usr/bin/env node
// In place of `cargo` where a release of the addon is built: `cargo build` with link-time optimisation for what is linked.
//
// cargo gives a library that other crates may use too (the tests use ours) no link-time optimisation, whatever its profile
// says; a build of the crate type that is wanted gets it. With identical functions folded (`build.rs`) it is a tenth smaller.

import { spawnSync } from 'node:child_process'

const [verb, ...args] = process.argv.slice(2)
const given =
  verb === 'build'
    ? ['rustc', '--lib', '--crate-type', 'cdylib', ...args.filter(arg => arg !== '--lib')]
    : [verb, ...args]
const { status, error } = spawnSync('cargo', given, { stdio: 'inherit' })
if (error) console.error(`cargo could not be started: ${error.message}`)
process.exitCode = status ?? 1
