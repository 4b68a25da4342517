//! What the engine's process list says of a command's processes. Its ids are those of the engine's host, so they cannot
//! be used to kill, but they tell without a second exec whether anything is left.

use serde::Deserialize;

use super::{MARK_VARIABLE, Target};

/// What to ask `ps` for (Engine API, `ps_args` of `GET /containers/{id}/top`). BSD's `e` shows the environment behind
/// the command line.
pub const PS_ARGS: &str = "axe -o pid,ppid,sid,args -ww";

/// The reply to `top`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Top {
  titles: Vec<String>,
  processes: Option<Vec<Vec<String>>>,
}

/// What is left of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
  /// Nothing.
  None,
  /// Something, or it could not be told.
  Perhaps,
  /// Among others, something in the session of the command's first process, which is gone.
  Orphans,
}

impl Top {
  /// `leader` is the command's first process, which has ended.
  pub fn leftovers(&self, target: &Target, leader: &str) -> Leftovers {
    let column = |names: [&str; 2]| self.titles.iter().position(|title| names.contains(&title.as_str()));
    let columns = (column(["PID", "PID"]), column(["PPID", "PPID"]), column(["SID", "SESS"]));
    let (Some(pid), Some(parent), Some(session)) = columns else { return Leftovers::Perhaps };
    let rows = self.processes.as_deref().unwrap_or_default();
    let cell = |row: &'_ [String], at: usize| row.get(at).cloned().unwrap_or_default();
    if rows.iter().any(|row| cell(row, session) == leader) {
      return Leftovers::Orphans;
    }
    if rows.iter().any(|row| row.iter().any(|cell| target.marks(cell))) {
      return Leftovers::Perhaps;
    }
    // Process 1 and the first processes of commands have their parent outside of the container.
    let outside = |row: &&Vec<String>| !rows.iter().any(|other| cell(other, pid) == cell(row, parent));
    let sessions: Vec<String> = rows.iter().filter(outside).map(|row| cell(row, session)).collect();
    let marked = |row: &[String]| row.iter().any(|cell| cell.contains(MARK_VARIABLE));
    let hidden = |row: &Vec<String>| !sessions.contains(&cell(row, session)) && !marked(row);
    if target.exclusive && rows.iter().any(hidden) { Leftovers::Perhaps } else { Leftovers::None }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const IDLE: [&str; 4] = ["10", "9", "10", "sh -c wait"];

  #[track_caller]
  fn left(exclusive: bool, rows: &[[&str; 4]]) -> Leftovers {
    let mut target = Target::new("", Some("needle".to_owned()), exclusive).unwrap();
    target.mark = format!("{MARK_VARIABLE}=aa");
    let rows: Vec<_> = [IDLE].iter().chain(rows).map(|row| row.map(str::to_owned).to_vec()).collect();
    let titles = ["PID", "PPID", "SID", "COMMAND"].map(str::to_owned).to_vec();
    Top { titles, processes: Some(rows) }.leftovers(&target, "50")
  }

  #[test]
  fn a_command_is_found_by_session_mark_and_text() {
    assert_eq!(left(true, &[]), Leftovers::None);
    assert_eq!(left(true, &[["11", "10", "10", "sleep 3600"]]), Leftovers::None);
    assert_eq!(left(false, &[["51", "10", "50", "sleep 1"]]), Leftovers::Orphans);
    assert_eq!(left(false, &[["51", "10", "51", "sleep 1 ZHIVEX_EXEC_ID=aa A=b"]]), Leftovers::Perhaps);
    assert_eq!(left(false, &[["51", "10", "51", "x needle"]]), Leftovers::Perhaps);
  }

  #[test]
  fn other_commands_are_no_leftovers_and_hidden_ones_only_in_exclusive_containers() {
    let other = ["60", "9", "60", "sh ZHIVEX_EXEC_ID=bb"];
    assert_eq!(left(true, &[other, ["61", "60", "60", "env -i cat"]]), Leftovers::None);
    let hidden = ["70", "10", "70", "sleep 300"];
    assert_eq!(left(true, &[other, hidden]), Leftovers::Perhaps);
    assert_eq!(left(false, &[other, hidden]), Leftovers::None);
  }

  #[test]
  fn a_list_without_the_columns_tells_nothing() {
    let target = Target::new("", None, false).unwrap();
    assert_eq!(Top::default().leftovers(&target, "50"), Leftovers::Perhaps);
    let text = r#"{"Titles":["USER","PID","PPID","%CPU"],"Processes":[["1","2","3","4"]]}"#;
    let top: Top = serde_json::from_str(text).unwrap();
    assert_eq!(top.leftovers(&target, "50"), Leftovers::Perhaps);
    let short = r#"{"Titles":["PID","PPID","SID"],"Processes":[["1"],[]]}"#;
    assert_eq!(serde_json::from_str::<Top>(short).unwrap().leftovers(&target, "50"), Leftovers::None);
    let null = r#"{"Titles":["PID","PPID","SID"],"Processes":null}"#;
    assert_eq!(serde_json::from_str::<Top>(null).unwrap().leftovers(&target, "50"), Leftovers::None);
  }
}
