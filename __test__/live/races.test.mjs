// A command swaps a directory for a link as fast as it can while files are read, written and listed below that name:
// no operation ever leaves the workspace.
import assert from 'node:assert/strict'
import { lab, sh } from '../support/live.mjs'

const { leavesNothing, onBoth } = lab()
const RACE_SECONDS = 5

// `mv -T` swaps without a moment in which the name is absent; both ways of swapping are tried. A write may put a file into
// what is being removed, at the end too.
const SWAP = `mkdir -p real; echo inside >real/hostname; echo inside >real/passwd
ln -sfn /etc link
end=$(($(date +%s)+${RACE_SECONDS}))
while [ "$(date +%s)" -lt "$end" ]; do
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -rf d; mkdir d; echo inside >d/passwd; rm -rf d; ln -s /etc d; rm -f d
    cp -r real d2 && mv -T d2 d; rm -rf d; cp -P link l2 && mv -fT l2 d
  done
done
rm -rf d d2 l2 2>/dev/null || :`

onBoth(
  'links swapped under the operations lead none of them out',
  { limits: { commandTimeoutMs: 60_000 } },
  async session => {
    const outside = await sh(session, 'cat /etc/passwd /etc/hostname /etc/hosts 2>/dev/null; ls /etc')
    const race = { on: true }
    const swapping = sh(session, SWAP).finally(() => (race.on = false))
    const codes = new Map()
    const attempt = async operation => {
      try {
        await operation()
        return 'done'
      } catch (error) {
        return error.code
      }
    }
    const loop = async operation => {
      while (race.on) {
        const code = await attempt(operation)
        codes.set(code, (codes.get(code) ?? 0) + 1)
      }
    }
    await Promise.all([
      swapping,
      loop(async () =>
        assert.ok(['inside\n', ''].includes((await session.readFile('d/passwd', { encoding: 'utf8' })).contents)),
      ),
      loop(async () =>
        assert.ok(['inside\n', ''].includes((await session.readFile('d/hostname', { encoding: 'utf8' })).contents)),
      ),
      loop(async () => {
        const { entries } = await session.list('d')
        assert.ok(
          // What `ln` and `mv` put into a directory that a write made meanwhile is inside too.
          entries.every(({ path }) => /^d\/(passwd|hostname|written|etc|real|d2|l2|\.zhivex-.*)$/.test(path)),
          JSON.stringify(entries),
        )
      }),
      loop(() => session.writeFile('d/written', 'x')),
    ])
    const known = ['done', 'PATH_INVALID', 'NOT_FOUND', 'DENIED', 'DOCKER_API']
    assert.deepEqual(
      [...codes.keys()].filter(code => !known.includes(code)),
      [],
      JSON.stringify([...codes]),
    )
    assert.ok([...codes.values()].reduce((sum, count) => sum + count) > 20, JSON.stringify([...codes]))
    assert.equal(await sh(session, 'cat /etc/passwd /etc/hostname /etc/hosts 2>/dev/null; ls /etc'), outside)
  },
)

leavesNothing()
