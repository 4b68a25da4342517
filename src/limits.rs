//! Every cap and deadline that is not an option, with its reason.

use std::time::Duration;

/// Longest workspace path in bytes, the kernel's `PATH_MAX` without its NUL (`linux/limits.h`).
pub const MAX_PATH_BYTES: usize = 4095;
/// Longest path component in bytes (`NAME_MAX`, `linux/limits.h`).
pub const MAX_NAME_BYTES: usize = 255;
/// Deepest path that we accept, in components: bounds walks and recursion on both ends.
pub const MAX_PATH_DEPTH: usize = 64;

/// Largest archive passed as one buffer, 256 MiB, the default of the package that this one replaces.
pub const MAX_ARCHIVE_BYTES: u64 = 256 * 1024 * 1024;
/// Most entries in one archive that we write or accept.
pub const MAX_ARCHIVE_ENTRIES: u64 = 100_000;
/// Largest long-name or PAX record in an archive: the longest path and link target fit many times over.
pub const MAX_ARCHIVE_RECORD_BYTES: u64 = 64 * 1024;
/// Most zero bytes after an archive's end marker. Writers pad to their record size: 10 KiB, 1 MiB with `tar -b 2048`.
pub const MAX_ARCHIVE_TRAILER_BYTES: u64 = 1024 * 1024;
/// Largest file that we write into an archive: what a ustar header can say in 11 octal digits, one byte below 8 GiB.
pub const MAX_ARCHIVE_FILE_BYTES: u64 = 0o77_777_777_777;

/// Most host files and directories that are looked at to find what is copied into a workspace: a `**` over a whole disk
/// ends here, after seconds.
pub const MAX_SOURCE_VISITS: u64 = 1_000_000;

/// Longest single argument or `NAME=value`: the kernel's `MAX_ARG_STRLEN`, 32 pages, without its NUL
/// (`linux/binfmts.h`).
pub const MAX_ARG_BYTES: usize = 131_071;
/// Most arguments of a command.
pub const MAX_ARGS: usize = 4096;
/// Bytes of all arguments with their NULs. The kernel takes a quarter of the stack limit for arguments, variables and
/// a pointer to each (`fs/exec.c`): 2 MiB with the usual 8 MiB stack.
pub const MAX_ARGS_BYTES: usize = 1024 * 1024;
/// Most variables of a command.
pub const MAX_ENV_VARS: usize = 1024;
/// Bytes of all variables with their `=` and NUL; with the arguments still well below the kernel's 2 MiB.
pub const MAX_ENV_BYTES: usize = 256 * 1024;

/// Longest path and query of a request. A URI holds 64 KiB less one (`http` crate), the socket's path among them in
/// hexadecimal; ids, names and labels take some hundred bytes.
pub const MAX_REQUEST_PATH_BYTES: usize = 32 * 1024;

/// Largest JSON reply that we read from an engine. `inspect` of a container with thousands of labels fits.
pub const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;
/// Largest value in a stream of JSON values. Progress of a pull and events are a few KiB; memory ends here.
pub const MAX_JSON_VALUE_BYTES: usize = 1024 * 1024;
/// Largest error body that we quote from.
pub const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// Largest head of a reply on a hijacked connection.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Longest message of an engine that is passed on in an error, in characters.
pub const MAX_ENGINE_MESSAGE_CHARS: usize = 1_000;

/// An engine answers ordinary requests in milliseconds; under a burst of starts, in seconds.
pub const ENGINE_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Connecting to a unix socket is instant unless the listener's backlog is full; to a TCP port it takes a look-up and a few
/// round trips, TLS among them.
pub const ENGINE_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A TCP connection that is silent for so long is tried, as Docker's own client has it: what is in between forgets some
/// after a minute or two.
pub const ENGINE_KEEPALIVE: Duration = Duration::from_secs(30);
/// An archive passes at disk speed; this is for a stuck one.
pub const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(120);
/// A command that has not closed its output after this long is asked about for the first time.
pub const EXEC_FIRST_ASK: Duration = Duration::from_millis(100);
/// After the engine said that a command ended, this long without data ends the reading: a background child may
/// hold the stream open for ever.
pub const EXEC_DRAIN_IDLE: Duration = Duration::from_millis(250);
/// And this long in all, however much a background child writes.
pub const EXEC_DRAIN_TOTAL: Duration = Duration::from_secs(2);
/// How long killing a command's processes may take before the caller is told that it failed.
pub const EXEC_KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A holder that has not renewed its heartbeat for this long is dead.
pub const HOLDER_SILENCE: Duration = Duration::from_secs(20);
/// Containers that one environment creates and starts at the same time; more wait for a turn. Engines start them no
/// quicker in a burst, and each start takes longer the more there are.
pub const MAX_STARTS: usize = 8;
/// How often a holder renews.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// A holder that seems silent is looked at again after so long: a heartbeat comes meanwhile if it lives.
pub const SECOND_LOOK: Duration = Duration::from_secs(6);

/// Resolving a path takes as long as one exec; a container starved of CPU may need longer.
pub const REALPATH_TIMEOUT: Duration = Duration::from_secs(10);
/// A file operation over `docker exec` moves at most a few MiB.
pub const FILE_OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest raw listing that is read: 16,384 entries of a full default workspace with paths of 500 bytes fit.
pub const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;

/// Largest lease record in a file. The fields take a KiB or two; the rest is for what a store adds.
pub const MAX_LEASE_FILE_BYTES: u64 = 1024 * 1024;
/// Largest head (key and meta data) of a snapshot file.
pub const MAX_SNAPSHOT_HEAD_BYTES: u32 = 64 * 1024;
/// Bytes that a snapshot file is read and written in: few system calls, little memory.
pub const SNAPSHOT_FILE_CHUNK_BYTES: usize = 256 * 1024;
/// Bytes of all snapshots that one memory store keeps, 1 GiB: sixteen full default workspaces.
pub const MAX_MEMORY_SNAPSHOTS_BYTES: u64 = 1024 * 1024 * 1024;
/// How long a store's lock may be taken by others. Each holds it for a few writes to the disk; this is for one that was
/// stopped while it held it.
pub const STORE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a method of the application's own lease store may take. A beat (every 5 s) loads and saves, and both must
/// have ended before others find the holder silent (20 s).
pub const LEASE_CALL_TIMEOUT: Duration = Duration::from_secs(7);
/// How long the application's own snapshot store may go without any progress. A store may send the whole snapshot
/// elsewhere between its last piece and its answer.
pub const SNAPSHOT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How much longer than its command an `exec` of the application's own Docker client may take: for creating, starting and
/// inspecting it, on an engine under a burst of starts.
pub const OWN_EXEC_MARGIN: Duration = Duration::from_secs(30);
/// How long such an `exec` may go on after its signal was aborted: enough to kill the command, as we do ourselves.
pub const OWN_EXEC_ABORT_TIMEOUT: Duration = EXEC_KILL_TIMEOUT;
/// How long its `pullImage` may take: a large image over a slow line.
pub const OWN_PULL_TIMEOUT: Duration = Duration::from_mins(30);
/// Calls of one store or client of the application's own that are under way at the same time; more wait for a place.
pub const MAX_OWN_CALLS: usize = 256;

/// Longest DNS name in bytes, without the dot at its end: 255 octets on the wire (RFC 1035, section 2.3.4).
pub const MAX_HOST_BYTES: usize = 253;
/// Longest label of a DNS name in bytes (RFC 1035, section 2.3.4).
pub const MAX_LABEL_BYTES: usize = 63;
/// Longest name that is given to IDNA at all. Four bytes of UTF-8 for each byte of the result, and its dot.
pub const MAX_HOST_INPUT_BYTES: usize = 4 * MAX_HOST_BYTES + 1;
/// Most header lines of one request or reply; browsers send about 30.
pub const MAX_PROXY_HEADERS: usize = 100;
/// Largest head of a reply to an `http://` request.
pub const MAX_REPLY_HEAD_BYTES: usize = 64 * 1024;
/// Longest line with a chunk's size. The size needs 16 digits, the rest are extensions, which nobody uses.
pub const MAX_CHUNK_LINE_BYTES: usize = 1024;
/// Most bytes of trailer lines after the last chunk.
pub const MAX_TRAILER_BYTES: usize = 8 * 1024;
/// Most bytes of a connection that are held back to find the server name of a TLS ClientHello. With keys for
/// post-quantum exchanges a hello has about 2 KiB; tickets may add some.
pub const MAX_CLIENT_HELLO_BYTES: usize = 32 * 1024;
/// Buffer for each direction of a connection through the proxy.
pub const PROXY_BUFFER_BYTES: usize = 64 * 1024;
/// Both look-ups of a name together. The system's resolver gives up after 10 s by default (`resolv.conf`: 2 × 5 s).
pub const PROXY_RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Names that the system's resolver looks up at once for all runs of a process; more wait. Each takes a thread.
pub const MAX_LOOKUPS: usize = 64;
/// All attempts to connect to one host together; the kernel alone would try for two minutes.
pub const PROXY_DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one address may be silent before the next is tried beside it (RFC 8305, section 5).
pub const PROXY_DIAL_STAGGER: Duration = Duration::from_millis(250);
/// Most addresses of one name that are connected to; a name with more is refused.
pub const MAX_PROXY_ADDRESSES: usize = 256;
/// How long a refused client may take to read why, and how long what it still sends is thrown away, so that a reset
/// does not overtake the reply.
pub const PROXY_LINGER: Duration = Duration::from_secs(1);
/// How much of it is thrown away.
pub const PROXY_LINGER_BYTES: usize = 256 * 1024;
/// Connections of a session beyond its quota that hear why before they end, at the same time. Each has a descriptor of the
/// host for up to twice [`PROXY_LINGER`]; those beyond are reset at once, so that no program can take all that there are.
pub const MAX_PROXY_REFUSED: u64 = 32;
