// How long each proof is: the one place. `npm run soak` takes the full lengths, `npm run soak -- --short` the short ones,
// which show that the proofs themselves still work.

const MIB = 2 ** 20

const LENGTHS = {
  full: {
    /** Seconds that each kind of race lasts, against everything that the session does with files, and against tars. */
    raceSeconds: 60,
    /** Hosts that are killed; every second one in the middle of a frame. */
    kills: 200,
    /** Hosts that are stopped, followed, and continued. */
    stops: 20,
    /** Commands of one session, and its reads and writes. */
    operations: 10_000,
    /** Of a stream of output, of input, and of a file each way. */
    streamBytes: 1024 * MIB,
    /** What goes the same way before, so that everything is warm when the figures begin: V8's young generation at its size. */
    warmUpBytes: 256 * MIB,
    /** Sessions at once. */
    sessions: 100,
    /** Times that twenty processes want one run. */
    acquires: 50,
    /** Containers that wait, and acquires at once from them. */
    pool: 10,
    burst: 50,
    /** A host is killed at every so manieth step. */
    stepStride: 1,
    /** Times that the engine stops: the sessions' transport, and the signal that the engine gets. */
    engineStops: ['resident', 'exec'].flatMap(transport => ['SIGTERM', 'SIGKILL'].map(signal => [transport, signal])),
    /** Files of a workspace that is saved and restored, and their size together. */
    snapshotFiles: 1_000,
    snapshotBytes: 64 * MIB,
  },
  short: {
    raceSeconds: 1,
    kills: 6,
    stops: 2,
    operations: 400,
    streamBytes: 32 * MIB,
    warmUpBytes: 16 * MIB,
    sessions: 8,
    acquires: 3,
    pool: 2,
    burst: 6,
    stepStride: 23,
    engineStops: [['resident', 'SIGKILL']],
    snapshotFiles: 1_000,
    snapshotBytes: 64 * MIB,
  },
}

export const lengthName = process.env.SANDBOX_SOAK ?? 'full'
if (!LENGTHS[lengthName])
  throw new Error(`SANDBOX_SOAK is ${lengthName}; it may be ${Object.keys(LENGTHS).join(' or ')}`)
export const { raceSeconds, kills, stops, operations, streamBytes, warmUpBytes, sessions, acquires, pool, burst } =
  LENGTHS[lengthName]
export const { stepStride, engineStops, snapshotFiles, snapshotBytes } = LENGTHS[lengthName]
