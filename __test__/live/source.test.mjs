// Host files are copied into a new workspace, never mounted.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { lab } from '../support/live.mjs'

const { environment, inSession, leavesNothing } = lab()
const root = mkdtempSync(join(tmpdir(), 'sandbox-source-'))
mkdirSync(join(root, 'src/größe'), { recursive: true })
writeFileSync(join(root, 'src/größe/a.txt'), 'from the host')
writeFileSync(join(root, 'src/b.md'), 'b')
writeFileSync(join(root, 'secret'), 'not asked for')
symlinkSync('/etc/passwd', join(root, 'out'))
after(() => rmSync(root, { recursive: true }))

test('what is included is in the workspace, and what happens there stays there', () =>
  inSession({ workspace: { source: { root, include: ['src'] } } }, async session => {
    const { entries } = await session.list('.', { depth: 5 })
    assert.deepEqual(
      entries.map(({ path }) => path),
      ['src', 'src/b.md', 'src/größe', 'src/größe/a.txt'],
    )
    assert.equal((await session.readFile('src/größe/a.txt', { encoding: 'utf8' })).contents, 'from the host')
    await session.writeFile('src/b.md', 'changed')
  }))

test('a link that leads out, a place outside and what is not there are refused by name', async () => {
  for (const include of ['out', 'nothing-*']) {
    const owner = environment({ workspace: { source: { root, include: [include] } } })
    await assert.rejects(
      owner.acquire({ runId: `source-${include}-${process.pid}` }),
      error => error.message.includes(include.replace('*', '')) && error.code !== 'INTERNAL',
      include,
    )
    await owner.close()
  }
  assert.throws(() => environment({ workspace: { source: { root, include: ['../x'] } } }), { code: 'CONFIG_INVALID' })
})

leavesNothing()
