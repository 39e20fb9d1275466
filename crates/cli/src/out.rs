//! Output for users and scripts: tables, JSON, errors with a hint, colour where permitted.

use armento_client::api::{Answer, Ask};
use armento_client::{AskError, Session};
use armento_noded::FarmError;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Armento itself failed (the status that `env`, `nohup` and `timeout` use).
pub const FAILED: i32 = 125;

/// NO_COLOR (no-color.org): present and not empty means none.
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

pub fn colour_choice() -> clap::ColorChoice {
    if has_colour() {
        clap::ColorChoice::Auto
    } else {
        clap::ColorChoice::Never
    }
}

/// `text` in an SGR colour, if standard output is a terminal and colour is not disabled.
pub fn paint(text: &str, sgr: u8) -> String {
    if !has_colour() || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    format!("\x1b[{sgr}m{text}\x1b[0m")
}

/// Prints; a closed pipe (`| head`) ends this process silently, as it ends other tools.
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(e) = written {
        let code = if e.kind() == io::ErrorKind::BrokenPipe {
            0
        } else {
            eprintln!("armento: cannot write to standard output: {e}");
            FAILED
        };
        std::process::exit(code);
    }
}

/// A JSON document that begins with its schema.
pub fn document(schema: &str, fields: Value) -> Value {
    let mut doc = json!({ "schema": schema });
    if let (Some(doc), Value::Object(fields)) = (doc.as_object_mut(), fields) {
        doc.extend(fields);
    }
    doc
}

pub fn say_json(schema: &str, fields: Value) {
    say(&format!("{:#}\n", document(schema, fields)));
}

/// A message and what to do about it.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub hint: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl std::error::Error for Failure {}

impl From<FarmError> for Failure {
    fn from(e: FarmError) -> Failure {
        Failure {
            hint: e.hint(),
            message: e.to_string(),
        }
    }
}

impl From<AskError> for Failure {
    fn from(e: AskError) -> Failure {
        Failure {
            hint: e.hint().to_owned(),
            message: e.to_string(),
        }
    }
}

/// Prints an error, if it is one; returns the exit code.
pub fn finish(result: anyhow::Result<i32>) -> i32 {
    result.unwrap_or_else(|e| {
        eprintln!("armento: {e:#}");
        FAILED
    })
}

/// Asks this node's daemon.
pub fn ask(ask: Ask, timeout: Duration) -> Result<Answer, Failure> {
    Ok(Session::connect()?.ask(ask, timeout)?)
}

/// The error for an answer of another kind than requested.
pub fn unexpected_answer() -> anyhow::Error {
    let failure = Failure {
        message: "the daemon's answer was not understood".into(),
        hint: "is it of the same version? see `armento --version` and the daemon's log".into(),
    };
    failure.into()
}

/// Columns as wide as their widest cell; `right` aligns a column's cells to the right.
pub fn table(heads: &[(&str, bool)], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|r| r[i].chars().count());
        cells.chain([heads[i].0.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: Vec<&str>| {
        let mut row = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            let (before, after) = if heads[i].1 { (&*pad, "") } else { ("", &*pad) };
            row.push_str(&format!("{before}{cell}{after}  "));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    line(heads.iter().map(|(h, _)| *h).collect());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = vec![
            vec!["n1".into(), "7".into()],
            vec!["node".into(), "1234".into()],
        ];
        let text = table(&[("NAME", false), ("N", true)], &rows);
        assert_eq!(text, "NAME     N\nn1       7\nnode  1234\n");
    }
}
