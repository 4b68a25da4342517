// The agent runtime is looked for at run time; its types are not needed here.
declare module '@zhivex-ai/core'
