// What the files in docker/ say of themselves.
import { readFileSync } from 'node:fs'
import { runInNewContext } from 'node:vm'

const folder = new URL('../../docker/', import.meta.url)

/** The text of one of them. */
export const textOf = name => readFileSync(new URL(name, folder), 'utf8')

/** The options of the call that its comment shows, as they are written there; `…` stands for the reader's own. */
export function optionsIn(name) {
  const comment = textOf(name)
    .split('\n')
    .filter(line => line.startsWith('#'))
    .map(line => line.slice(1))
    .join('\n')
  const found = /createDockerSandboxEnvironment\((?<options>\{[^]*?\n? *\})\)/.exec(comment)
  if (!found) throw new Error(`The comment of docker/${name} shows no call`)
  return runInNewContext(`(${found.groups.options.replace('…', '')})`)
}

/** The tag under which its comment says to build it. */
export const tagIn = name => /docker build --tag (?<tag>\S+) docker/.exec(textOf(name)).groups.tag
