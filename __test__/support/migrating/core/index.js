// In the place of the agent runtime's core: the class that its users catch.
export { ConflictError } from '../../runtime.mjs'
