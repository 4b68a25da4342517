// What may still call an application's objects keeps them: the way to leave nothing else of an environment.
import assert from 'node:assert/strict'
import { collecting } from './garbage.mjs'
import { Leases, Snapshots } from './stores.mjs'

class NotingSnapshots extends Snapshots {
  constructor(told) {
    super()
    this.save = (...args) => (told.push(['saveSnapshot']), Snapshots.prototype.save.apply(this, args))
  }
}

/** Objects of the application's own that mention `self`, and note in `told` what they are asked and told. */
const objectsFor = (self, told) => ({
  leaseStore: Object.assign(new Leases(), { calls: told, self }),
  snapshotStore: Object.assign(new NotingSnapshots(told), { self }),
  resolveHost: host => (told.push([host, typeof self]), ['127.0.0.1']),
  onEvent: ({ type }) => told.push([type, typeof self]),
})

/**
 * Makes an environment by `create`, of objects that nothing of the test refers to. What `keep` makes of it is all that stays
 * of it, in `held.kept`.
 */
export async function keepingOnly(create, keep) {
  const told = []
  const gone = new Set()
  const registry = new FinalizationRegistry(name => gone.add(name))
  const make = () => {
    const self = {}
    const objects = objectsFor(self, told)
    for (const [name, object] of Object.entries(objects)) registry.register(object, name)
    self.environment = create(objects)
    return self.environment
  }
  const held = { kept: await keep(make()) }
  /** How often something was asked or told. */
  const count = what => told.filter(([each]) => each === what).length
  /** Resolves when something was asked or told five times more, whatever is collected meanwhile. */
  const goesOn = async what => {
    const before = count(what)
    await collecting(`${what} goes on`, () => count(what) >= before + 5)
    assert.deepEqual([...gone], [])
  }
  /** Lets go of what was kept: now everything goes, so nothing else kept it. */
  const dropped = async () => {
    delete held.kept
    await collecting('they are gone', () => gone.size === Object.keys(objectsFor()).length)
  }
  return { held, gone, count, goesOn, dropped }
}
