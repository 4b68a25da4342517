// The shapes that the runtime takes, as far as they concern an execution environment and its tools.
export interface Call {
  name: string
  input: Record<string, unknown>
}
export type Model = (turn: { step: number }) => { calls: Call[] } | { text: string }
export interface RunState {
  status: string
  text?: string
  error?: { name: string; code?: string; message: string }
  messages: { role: string; results?: { value?: any; error?: { code?: string; message: string } }[] }[]
}
export interface Session {
  readonly manifest: { readonly id: string }
  readonly binding: { readonly fingerprint: string }
  authorize(request: any): unknown
  execute<Result>(request: any, operation: () => Result | Promise<Result>): Result | Promise<Result>
  release?(request: { status: 'completed' | 'failed'; error?: { message: string } }): void | Promise<void>
}
export interface Tool {
  name: string
  schema: { safeParse(input: unknown): { success: boolean } }
  execute(input: any, context: { executionEnvironment?: unknown }): unknown
}
export declare class Agent {
  constructor(options: {
    model: Model
    executionEnvironment: { readonly manifest: { readonly id: string }; acquire(request: { runId: string }): unknown }
    tools: Record<string, Tool>
    maxSteps?: number
  })
  run(request: { runId: string }): Promise<RunState>
  resume(state: RunState, answer?: { approve?: 'all' | string[] }): Promise<RunState>
}
