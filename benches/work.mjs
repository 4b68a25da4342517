// Work that times and memory are both asked of.

export const MIB = 2 ** 20
export const STREAM_BYTES = 32 * MIB
/** Sessions that are open at once, and the commands that each of them runs. */
export const [SESSIONS, COMMANDS] = [100, 10]
const [FILES, FILES_BYTES] = [1000, 64 * MIB]

/** A buffer as a stream of pieces. */
export async function* pieces(bytes) {
  for (let at = 0; at < bytes.length; at += 64 * 1024) yield bytes.subarray(at, at + 64 * 1024)
}

/** Reads all of the file `g`. */
export async function drained(run) {
  let count = 0
  for await (const piece of await run.readFileStream('g')) count += piece.length
  if (count !== STREAM_BYTES) throw new Error(`${count} bytes came`)
}

/** A shell script that makes what one snapshot holds: 64 MiB in a thousand files. */
export const FILL = `mkdir t; i=0; while [ $i -lt ${FILES} ]; do head -c ${Math.floor(FILES_BYTES / FILES)} /dev/urandom >t/$i; i=$((i+1)); done`

/** Takes an owner's containers away behind its back. */
export async function lose(client, ownerId) {
  for (const { Id } of await client.listContainers(`zhivex.sandbox.owner=${ownerId}`)) await client.removeContainer(Id)
}
