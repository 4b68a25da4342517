// Folders for what is of use for a while.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onInterrupt } from './cleanup.mjs'

/** Calls `use` with a new folder, which goes when that has settled, or when a signal ends this process. */
export async function inTemporary(prefix, use) {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const forget = onInterrupt(remove)
  try {
    return await use(folder)
  } finally {
    remove()
    forget()
  }
}
