// Where a command can write: the workspace, /tmp if it was asked for, and nowhere else; and never more than its cap.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BUSYBOX, DEBIAN, HOSTILE, lab, sh } from '../support/live.mjs'

const { inSession, leavesNothing, onBoth } = lab()

// Every directory of every mount is tried, not asked: a read-only mount refuses although the mode allows. The files
// of processes are theirs to write, and so are the kernel's pressure triggers, which last while they are open; below
// neither is anything that stays. What an engine masks is /dev/null by another name.
const FIND = `for m in $(cut -d" " -f2 /proc/self/mounts | sort -u); do
  find "$m" -xdev \\( -path "/proc/[0-9]*" -o -path /proc/self -o -path /proc/thread-self -o -path /proc/pressure \\) -prune -o -type "$1" -print 2>/dev/null
done | sort -u`
const DIRECTORIES = `set d; ${FIND} | while IFS= read -r d; do { true >"$d/.probe"; } 2>/dev/null && echo "$d"; done`
const FILES = `set f; ${FIND} | while IFS= read -r f; do [ -w "$f" ] && [ ! -c "$f" ] && { true >>"$f"; } 2>/dev/null && echo "$f"; done; :`
const POINTS = `for m in $(cut -d" " -f2 /proc/self/mounts | sort -u); do
  for make in "mkdir" "mkfifo" "ln -s x" "ln /bin/sh"; do $make "$m/.other" 2>/dev/null && { echo "$m"; rm -rf "$m/.other"; }; done
done | sort -u`

for (const image of [BUSYBOX, DEBIAN, HOSTILE]) {
  for (const tmp of [undefined, { sizeMb: 4 }]) {
    const places = tmp ? '/tmp\n/workspace\n' : '/workspace\n'
    test(`writable with ${tmp ? 'a' : 'no'} /tmp: ${places.trim().replace('\n', ' and ')} [${image.slice(13, -7)}]`, () =>
      inSession({ image, tmp, limits: { commandTimeoutMs: 60_000 } }, async session => {
        assert.equal(await sh(session, DIRECTORIES), places)
        assert.equal(await sh(session, 'rm -f /workspace/.probe /tmp/.probe 2>/dev/null; :'), '')
        assert.equal(await sh(session, FILES), '')
        assert.equal(await sh(session, POINTS), places)
      }))
  }
}

onBoth(
  'the workspace takes its bytes and not one page more',
  { limits: { maxWorkspaceBytes: 2 ** 20 } },
  async session => {
    const { exitCode, stderr } = await session.exec({ command: 'dd', args: ['if=/dev/zero', 'of=big', 'bs=4096'] })
    assert.equal(exitCode, 1)
    assert.match(stderr, /No space left/)
    assert.equal(
      await sh(session, 'stat -c %s big; rm big; df -k . | tail -n 1 | awk "{print \\$2, \\$3}"'),
      '1048576\n1024 0\n',
    )
  },
)

onBoth(
  'and its number of files',
  { limits: { maxWorkspaceBytes: 2 ** 20, commandTimeoutMs: 30_000 } },
  async session => {
    const made = await sh(session, 'i=0; while { true >"f$i"; } 2>/dev/null; do i=$((i+1)); done; echo $i')
    // 1,024 inodes, one of them the workspace itself.
    assert.equal(made, '1023\n')
  },
)

onBoth('programs do not run from it, nor from /tmp', { tmp: { sizeMb: 4 } }, async session => {
  const script = 'cp /bin/sh "$1/x" && chmod 755 "$1/x" && "$1/x" -c "echo ran"'
  for (const place of ['/workspace', '/tmp']) {
    const { exitCode, stdout } = await session.exec({ command: 'sh', args: ['-c', script, 'sh', place] })
    assert.deepEqual([exitCode, stdout], [126, ''], place)
  }
})

onBoth('unless the workspace may', { workspace: { exec: true }, tmp: { sizeMb: 4 } }, async session => {
  assert.equal(await sh(session, 'printf "#!/bin/sh\\necho ran\\n" >x; chmod 755 x; ./x'), 'ran\n')
  assert.equal((await session.exec({ command: 'sh', args: ['-c', 'cp x /tmp/x; /tmp/x'] })).exitCode, 126)
})

leavesNothing()
