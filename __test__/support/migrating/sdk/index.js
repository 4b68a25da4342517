// In the place of the agent runtime: its `Agent`, as far as the programs beside this need it, over the loop of the tests.
import { resumeRun, startRun } from '../../runtime.mjs'

export class Agent {
  #agent
  constructor({ model, executionEnvironment, tools, maxSteps }) {
    this.#agent = { model, environment: executionEnvironment, tools, maxSteps }
  }
  run(request) {
    return startRun(this.#agent, request)
  }
  resume(state, answer) {
    return resumeRun(this.#agent, state, answer)
  }
}
