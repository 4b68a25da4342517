// Where programs are.

import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { PATH } from './run.mjs'

/** The full path of a program on `PATH` or among the administration tools; undefined when it is not installed. */
export function findOnPath(name) {
  return PATH.split(':')
    .map(folder => join(folder, name))
    .find(isExecutable)
}

/** The names in a table of packages, each with a function that says whether what it holds is there, that are missing. */
export function missingOf(packages) {
  return Object.keys(packages).filter(name => !packages[name]())
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
