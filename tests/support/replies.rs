//! The usual replies of an engine, as bytes.

use super::scripted_engine::{Act, Script};

/// The container and exec of most tests.
pub const CONTAINER: &str = "c1";
pub const EXEC_CREATE: &str = "/containers/c1/exec";
pub const EXEC_START: &str = "/exec/e1/start";
pub const EXEC_INSPECT: &str = "/exec/e1/json";
pub const INSPECT: &str = "/containers/c1/json";

/// A whole reply with a length.
pub fn reply(status: u16, body: &str) -> Vec<Act> {
  vec![Act::Write(
    format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
  )]
}

/// An error as engines write it.
pub fn error(status: u16, message: &str) -> Vec<Act> {
  reply(status, &serde_json::json!({ "message": message }).to_string())
}

/// The reply to a ping.
pub fn ping(api_version: &str) -> Vec<Act> {
  vec![Act::Write(
    format!("HTTP/1.1 200 OK\r\nApi-Version: {api_version}\r\nContent-Length: 2\r\n\r\nOK").into_bytes(),
  )]
}

/// The head before a hijacked stream, with status 101 or 200.
pub fn stream_head(status: u16) -> Vec<u8> {
  let upgrade = if status == 101 { "Connection: Upgrade\r\nUpgrade: tcp\r\n" } else { "" };
  format!("HTTP/1.1 {status} Scripted\r\nContent-Type: application/vnd.docker.raw-stream\r\n{upgrade}\r\n")
    .into_bytes()
}

/// A frame of standard output (1) or standard error (2).
pub fn frame(stream: u8, data: &[u8]) -> Vec<u8> {
  let mut frame = vec![stream, 0, 0, 0];
  frame.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
  frame.extend_from_slice(data);
  frame
}

/// Head and frames in one write, then the end.
pub fn streamed(status: u16, frames: &[Vec<u8>]) -> Vec<Act> {
  vec![Act::Write([stream_head(status), frames.concat()].concat()), Act::Close]
}

/// The reply to an exec's inspection, of one that ended.
pub fn exec_exited(code: i64) -> Vec<Act> {
  reply(200, &format!(r#"{{"ID":"e1","Running":false,"ExitCode":{code},"Pid":4242}}"#))
}

/// And of one that runs.
pub fn exec_running() -> Vec<Act> {
  reply(200, r#"{"ID":"e1","Running":true,"ExitCode":null,"Pid":4242}"#)
}

/// The reply to a container's inspection.
pub fn container(state: &str) -> Vec<Act> {
  let running = matches!(state, "running" | "paused");
  let paused = state == "paused";
  reply(
    200,
    &format!(r#"{{"Id":"c1","State":{{"Status":"{state}","Running":{running},"Paused":{paused}}}}}"#),
  )
}

/// The reply to `top`: process id, parent, session and command line of each.
pub fn top(rows: &[[&str; 4]]) -> Vec<Act> {
  reply(
    200,
    &serde_json::json!({ "Titles": ["PID", "PPID", "SID", "COMMAND"], "Processes": rows }).to_string(),
  )
}

/// An engine that runs one exec in a running container: `start` is the reply to its start, `inspect` to its inspection.
pub fn one_exec(start: Vec<Act>, inspect: Vec<Act>) -> Script {
  Script::new()
    .on("POST", EXEC_CREATE, reply(201, r#"{"Id":"e1"}"#))
    .on("POST", EXEC_START, start)
    .on("GET", EXEC_INSPECT, inspect)
    .on("GET", INSPECT, container("running"))
}
