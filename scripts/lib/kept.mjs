// Folders that take long to fill, as tar files that are kept between runs.

import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { onInterrupt } from './cleanup.mjs'
import { must } from './run.mjs'

/**
 * The path of the tar of what `fill` puts into an empty folder. Its name has a hash of the file at `recipe`, the URL of
 * the module that knows how.
 */
export async function kept(name, recipe, fill) {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sandbox-docker')
  const hash = createHash('sha256')
    .update(readFileSync(new URL(recipe)))
    .digest('hex')
    .slice(0, 12)
  const path = join(cache, `${name}-${process.arch}-${hash}.tar`)
  if (existsSync(path)) return path
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-docker-rootfs-'))
  // Renamed when whole, so that neither an interrupted run nor one beside this one leaves half a file.
  const draft = `${path}.${process.pid}`
  const remove = () => [folder, draft].forEach(left => rmSync(left, { recursive: true, force: true }))
  const forget = onInterrupt(remove)
  try {
    // mkdtemp makes a folder for this user alone, but it becomes the image's root.
    chmodSync(folder, 0o755)
    await fill(folder)
    await must('packing an image', 'tar', ['--create', '--file', draft, '--directory', folder, '--numeric-owner', '.'])
    renameSync(draft, path)
    return path
  } finally {
    remove()
    forget()
  }
}
