use super::*;
use crate::docker::EngineKind;

fn options(extra: Value) -> Options {
  let mut options = json!({ "workspace": { "id": "w" } });
  for (key, value) in extra.as_object().unwrap() {
    options[key] = value.clone();
  }
  Options::from_json(&options, &[], EngineKind::Node).unwrap()
}

/// The same decision in both phases, as the runtime reads it.
#[track_caller]
fn decided(options: &Options, tool: &str, input: &Value) -> Value {
  let ask = |phase: &str| {
    let request = json!({ "tool": tool, "phase": phase, "input": input }).to_string();
    serde_json::from_str::<Value>(&authorize_json(options, false, &request)).unwrap()
  };
  assert_eq!(ask("preflight"), ask("execute"));
  ask("execute")
}

#[track_caller]
fn allowed(options: &Options, tool: &str, input: Value) {
  assert_eq!(decided(options, tool, &input), json!({ "decision": "allow" }));
}

#[track_caller]
fn denied(options: &Options, tool: &str, input: Value, reason: &str) {
  assert_eq!(decided(options, tool, &input), json!({ "decision": "deny", "reason": reason }));
}

#[test]
fn other_tools_must_be_declared() {
  let reason = "Tool \"search\" is not declared for this sandbox; use sandbox_read_file, sandbox_write_file, sandbox_list, sandbox_exec, or have the application declare it.";
  denied(&options(json!({})), "search", json!({}), reason);
  denied(&options(json!({ "declaredTools": ["searches"] })), "search", json!({}), reason);
  allowed(&options(json!({ "declaredTools": ["search"] })), "search", json!({}));
  allowed(&options(json!({ "undeclaredTools": "allow" })), "search", json!({}));
}

#[test]
fn a_declared_tool_may_have_any_input() {
  allowed(&options(json!({ "declaredTools": ["search"] })), "search", json!({ "path": "/etc/passwd" }));
}

#[test]
fn paths_stay_in_the_workspace() {
  let options = options(json!({ "shell": "allow" }));
  for tool in ["sandbox_read_file", "sandbox_write_file", "sandbox_list"] {
    allowed(&options, tool, json!({ "path": "src/a.txt" }));
    allowed(&options, tool, json!({ "path": "/workspace/a" }));
    denied(
      &options,
      tool,
      json!({ "path": "../a" }),
      "Path \"../a\" contains \"..\"; name the place directly.",
    );
    denied(
      &options,
      tool,
      json!({ "path": "/etc" }),
      "Path \"/etc\" is outside the workspace; use a path relative to /workspace.",
    );
  }
  allowed(&options, "sandbox_list", json!({}));
  allowed(&options, "sandbox_exec", json!({ "command": "ls", "cwd": "src" }));
  denied(
    &options,
    "sandbox_exec",
    json!({ "command": "ls", "cwd": "/" }),
    "Path \"/\" is outside the workspace; use a path relative to /workspace.",
  );
}

#[test]
fn commands_follow_the_policy() {
  denied(
    &options(json!({})),
    "sandbox_exec",
    json!({ "command": "ls" }),
    "Command \"ls\" is refused: no commands may be run here (shell: \"deny\"); use the file tools instead.",
  );
  let some = options(json!({ "shell": { "allow": ["ls"] } }));
  allowed(&some, "sandbox_exec", json!({ "command": "/bin/ls", "args": ["-l"] }));
  denied(
    &some,
    "sandbox_exec",
    json!({ "command": "rm" }),
    "Command \"rm\" is refused: it is not allowed here; allowed: ls.",
  );
  denied(
    &some,
    "sandbox_exec",
    json!({ "command": "ls", "args": ["a\0"] }),
    "Argument 0 contains a NUL byte, which no argument can hold; put it in a file.",
  );
  denied(&some, "sandbox_exec", json!({}), "Command \"\" is refused: it is empty; name a program.");
}

#[test]
fn what_cannot_be_read_or_is_released_is_denied() {
  let options = options(json!({ "undeclaredTools": "allow" }));
  let unreadable = json!({ "decision": "deny", "reason": "The tool call could not be read; call the tool as its schema says." });
  for request in ["", "[]", "{}", r#"{"tool":7}"#, r#"{"tool":"sandbox_list","input":{"path":7}}"#] {
    let decision: Value = serde_json::from_str(&authorize_json(&options, false, request)).unwrap();
    assert_eq!(decision, unreadable, "{request}");
  }
  let released: Value =
    serde_json::from_str(&authorize_json(&options, true, r#"{"tool":"sandbox_list"}"#)).unwrap();
  assert_eq!(
    released,
    json!({ "decision": "deny", "reason": "This sandbox session is released; its run has to be acquired again." })
  );
}
