//! May a tool be called? A pure decision, the same in both phases, in words that a model can act on.

use serde::Deserialize;
use serde_json::{Value, json};

use super::options::{Options, UndeclaredTools};
use crate::workspace::path::{WorkspacePath, quote};
use crate::workspace::policy::{self, Decision};

/// The tools of this package.
pub const OWN_TOOLS: [&str; 4] = ["sandbox_read_file", "sandbox_write_file", "sandbox_list", "sandbox_exec"];
/// The one of them that runs commands.
const EXEC_TOOL: &str = "sandbox_exec";

/// A tool call, as far as it matters here.
#[derive(Debug, Deserialize)]
pub struct ToolCall {
  /// The tool's name.
  pub tool: String,
  /// Its arguments, where it is one of ours.
  #[serde(default)]
  pub input: ToolInput,
}

/// The arguments that a decision depends on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ToolInput {
  /// A file or directory.
  pub path: Option<String>,
  /// A command.
  pub command: Option<String>,
  /// Its arguments.
  pub args: Option<Vec<String>>,
  /// Where it starts.
  pub cwd: Option<String>,
}

/// `Err` is the reason for a refusal.
pub fn authorize(options: &Options, call: &ToolCall) -> Result<(), String> {
  if !OWN_TOOLS.contains(&call.tool.as_str()) {
    return undeclared(options, &call.tool);
  }
  for path in [&call.input.path, &call.input.cwd].into_iter().flatten() {
    WorkspacePath::parse(path).map_err(|error| error.message().to_owned())?;
  }
  if call.tool != EXEC_TOOL {
    return Ok(());
  }
  let command = call.input.command.as_deref().unwrap_or_default();
  if let Decision::Deny { reason } = policy::decide(&options.shell, options.workspace.exec, command) {
    return Err(reason);
  }
  policy::check_args(call.input.args.as_deref().unwrap_or_default())
    .map_err(|error| error.message().to_owned())
}

fn undeclared(options: &Options, tool: &str) -> Result<(), String> {
  let known = options.declared_tools.iter().any(|declared| declared == tool);
  if known || options.undeclared_tools == UndeclaredTools::Allow {
    return Ok(());
  }
  Err(format!(
    "Tool {} is not declared for this sandbox; use {}, or have the application declare it.",
    quote(tool),
    OWN_TOOLS.join(", ")
  ))
}

/// The decision as the runtime reads it. A call that cannot be read is denied, and so is every call after release.
pub fn authorize_json(options: &Options, released: bool, request: &str) -> String {
  let decided = match serde_json::from_str::<ToolCall>(request) {
    _ if released => Err("This sandbox session is released; its run has to be acquired again.".to_owned()),
    Ok(call) => authorize(options, &call),
    Err(_malformed) => Err("The tool call could not be read; call the tool as its schema says.".to_owned()),
  };
  let decision: Value = match decided {
    Ok(()) => json!({ "decision": "allow" }),
    Err(reason) => json!({ "decision": "deny", "reason": reason }),
  };
  decision.to_string()
}

#[cfg(test)]
mod tests;
