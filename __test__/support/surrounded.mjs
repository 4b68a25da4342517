// What the process says of engines, for as long as a test needs it said.

const NAMES = [
  'DOCKER_HOST',
  'DOCKER_TLS_VERIFY',
  'DOCKER_TLS',
  'DOCKER_CERT_PATH',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
  'HOME',
  'XDG_RUNTIME_DIR',
]

/** Calls `use` while the process has of the variables that matter these and no others. */
export async function surrounded(variables, use) {
  const before = NAMES.map(name => [name, process.env[name]])
  for (const name of NAMES) delete process.env[name]
  Object.assign(process.env, variables)
  try {
    return await use()
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
}
