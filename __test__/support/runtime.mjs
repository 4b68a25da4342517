// A small double of the agent runtime's loop: it drives an execution environment in the order that the runtime does,
// with a scripted model in the place of a language model. What a run needs to go on later is plain JSON (`state`), so a
// test can resume it in another process.
import { fingerprintOf } from './fingerprint.mjs'

export class ConflictError extends Error {
  name = 'ConflictError'
}

const clone = value => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))

/**
 * Runs an agent until it completes, fails, is cancelled, or waits for approval.
 *
 * `agent` is `{ id?, environment, tools, model }`; `model({ step, messages, metadata })` returns `{ text }` to end or
 * `{ calls: [{ id?, name, input }] }`. Returns the run's state, JSON only.
 */
export async function startRun(agent, { runId, scope, metadata = {}, abortSignal } = {}) {
  const stored = clone(bindingOf(agent.environment.manifest))
  const state = { runId, scope, metadata, binding: stored, status: 'queued', messages: [], step: 0, pending: null }
  return invoke(agent, clone(state), { abortSignal })
}

/** Goes on with a run that waits, after the calls in `approve` (ids, or `'all'`) were approved and the rest refused. */
export async function resumeRun(agent, state, { approve = 'all', abortSignal } = {}) {
  const next = clone(state)
  for (const call of next.pending ?? []) {
    if (call.approval !== 'waiting') continue
    call.approval = approve === 'all' || approve.includes(call.id) ? 'approved' : 'rejected'
  }
  return invoke(agent, next, { abortSignal })
}

/** The binding that the runtime computes itself from a manifest. */
export function bindingOf(manifest) {
  return {
    environmentId: manifest.id,
    environmentVersion: manifest.version,
    fingerprint: fingerprintOf(manifest),
    workspaceId: manifest.workspace?.id,
  }
}

async function invoke(agent, state, { abortSignal }) {
  const { runId, scope, metadata } = state
  let session
  let error
  try {
    state.status = 'running'
    session = await agent.environment.acquire({ runId, agentId: agent.id, scope, metadata, abortSignal })
    await verify(session, state.binding)
    await loop(agent, state, session, abortSignal)
  } catch (thrown) {
    error = thrown
    state.status = statusOf(abortSignal)
    state.error = { name: thrown?.name, code: thrown?.code, message: String(thrown?.message ?? thrown) }
  } finally {
    // A rejection here would replace the result, as in the runtime; so it is not caught.
    if (session)
      await session.release({ status: state.status, ...(error ? { error: { message: error.message } } : {}) })
  }
  if (error instanceof ConflictError || (error && !session)) throw error
  return clone(state)
}

/** A run that reached its own deadline has timed out; `AbortSignal.timeout` says so in its reason. */
function statusOf(abortSignal) {
  if (!abortSignal?.aborted) return 'failed'
  return abortSignal.reason?.name === 'TimeoutError' ? 'timed_out' : 'cancelled'
}

/** Field by field against the stored binding, and the fingerprint of the session's manifest anew. */
async function verify(session, stored) {
  const differs = ['environmentId', 'environmentVersion', 'fingerprint', 'workspaceId'].find(
    field => session.binding[field] !== stored[field],
  )
  if (differs) throw new ConflictError(`The execution environment changed: ${differs} differs from the run's.`)
  if (fingerprintOf(session.manifest) !== stored.fingerprint) {
    throw new ConflictError('The manifest of the session has another fingerprint than its binding.')
  }
}

async function loop(agent, state, session, abortSignal) {
  for (const maxSteps = agent.maxSteps ?? 20; state.step < maxSteps; state.step++) {
    abortSignal?.throwIfAborted()
    state.pending ??= await nextBatch(agent, state)
    if (!state.pending) {
      state.status = 'completed'
      return
    }
    const calls = parse(agent, state.pending)
    await preflight(session, calls, state)
    if (state.pending.some(call => call.approval === 'waiting')) {
      state.status = 'waiting_approval'
      return
    }
    // The calls of one batch run at the same time; their results keep the order of the batch.
    const results = await Promise.all(calls.map(call => runCall(agent, session, call, state, abortSignal)))
    state.messages.push({ role: 'tool', results: clone(results) })
    state.pending = null
  }
  throw new Error('The run took too many steps.')
}

/** Asks the model; `null` when it is done. */
async function nextBatch(agent, state) {
  const answer = await agent.model({ step: state.step, messages: clone(state.messages), metadata: state.metadata })
  state.messages.push({ role: 'assistant', ...clone(answer) })
  if (!answer.calls?.length) {
    state.text = answer.text
    return null
  }
  return answer.calls.map(({ id, name, input }, index) => {
    const tool = agent.tools[name]
    if (!tool) throw new Error(`The model called the unknown tool ${name}.`)
    const asks = tool.requiresApproval && tool.approvalMode === 'interrupt'
    return { id: id ?? `call-${state.step}-${index}`, name, input: clone(input), approval: asks ? 'waiting' : 'none' }
  })
}

/** Parses the inputs of a batch; what does not parse becomes an error result for the model. */
function parse(agent, pending) {
  return pending.map(call => {
    const tool = agent.tools[call.name]
    const parsed = tool.schema.safeParse(call.input)
    return parsed.success ? { ...call, tool, input: parsed.data } : { ...call, tool, problem: parsed.error.message }
  })
}

/** Every call of the batch in order, before any of them runs; one refusal rejects them all. */
async function preflight(session, calls, state) {
  for (const call of calls) {
    if (call.problem !== undefined) continue
    const decision = await session.authorize(requestFor(session, call, state, 'preflight'))
    if (decision.decision === 'allow') continue
    for (const other of calls) other.problem ??= `The batch was refused: ${call.name}: ${decision.reason}`
    for (const other of state.pending) other.approval = 'none'
    return
  }
}

function requestFor(session, call, state, phase, context = contextFor(session, call, state)) {
  const { id, name } = call
  const toolCall = { id, name, input: call.input }
  return {
    manifest: session.manifest,
    binding: session.binding,
    tool: call.tool,
    toolCall,
    input: call.input,
    context,
    phase,
  }
}

function contextFor(session, call, state, abortSignal) {
  return {
    runId: state.runId,
    toolCall: { id: call.id, name: call.name, input: call.input },
    step: state.step,
    ...(abortSignal ? { abortSignal } : {}),
    executionEnvironment: session,
    metadata: state.metadata,
    scope: state.scope,
  }
}

async function runCall(agent, session, call, state, abortSignal) {
  const result = { id: call.id, name: call.name }
  if (call.approval === 'rejected') return { ...result, error: { message: 'The user refused this call.' } }
  if (call.problem !== undefined) return { ...result, error: { message: call.problem } }
  const context = contextFor(session, call, state, callSignal(agent, abortSignal))
  try {
    const request = requestFor(session, call, state, 'execute', context)
    const decision = await session.authorize(request)
    if (decision.decision === 'deny') return { ...result, error: { message: decision.reason } }
    const value = await session.execute(request, () => call.tool.execute(call.input, context))
    return { ...result, value: value === undefined ? null : clone(value) }
  } catch (error) {
    if (abortSignal?.aborted) throw error
    return { ...result, error: { name: error.name, code: error.code, message: error.message } }
  }
}

/** A signal for each call, which fires on the call's own time limit or with the run's. */
function callSignal(agent, abortSignal) {
  const signals = [abortSignal, agent.toolTimeoutMs && AbortSignal.timeout(agent.toolTimeoutMs)].filter(Boolean)
  return signals.length > 1 ? AbortSignal.any(signals) : signals[0]
}

/**
 * A sub-agent is a tool: it acquires the same environment under a run id of its own in the middle of the parent's call.
 */
export function subAgentTool(name, agent, schema) {
  return {
    name,
    schema,
    async execute(input, context) {
      const runId = `${context.runId}/${context.toolCall.id}`
      const { status, text, error } = await startRun(agent, {
        runId,
        scope: context.scope,
        metadata: { input },
        abortSignal: context.abortSignal,
      })
      if (status !== 'completed') throw new Error(`The sub-agent ended as ${status}: ${error?.message ?? ''}`)
      return { text }
    },
  }
}
