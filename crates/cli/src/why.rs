//! `armento why PID`.

use crate::out::{ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask};
use armento_model::{Pid, clean};
use serde_json::json;

const HELP: &str = "Examples:
  armento why 4711
  armento why 4711 --json | jq -r .stay";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The process, by its pid at home
    pid: Pid,
    /// Print JSON (schema armento.why/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let answer = ask(Ask::Why { pid: args.pid }, ANSWER)?;
    let Answer::Why {
        pid,
        place,
        stay,
        explanation,
        remedy,
        detail,
        partner,
    } = answer
    else {
        return Err(unexpected_answer());
    };
    if args.json {
        let fields = json!({
            "pid": pid, "place": place, "stay": stay,
            "explanation": explanation, "remedy": remedy,
            "detail": (!detail.is_empty()).then_some(&detail), "partner": partner,
        });
        say_json("armento.why/1", fields);
        return Ok(0);
    }
    let place = place.map_or_else(|| "an unknown node".into(), |n| n.to_string());
    let code = stay.map_or_else(String::new, |s| format!(" [{}]", s.code()));
    let more = more(&detail, partner);
    say(&format!(
        "{pid} is on {place}{code}: {explanation}\n{more}remedy: {remedy}\n"
    ));
    Ok(0)
}

/// Details beyond the reason, a line each.
fn more(detail: &str, partner: Option<Pid>) -> String {
    let mut lines = String::new();
    if !detail.is_empty() {
        lines += &format!("more: {}\n", clean(detail));
    }
    if let Some(pid) = partner {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        lines += &format!("because of: process {pid} {}", clean(name.trim_end()));
        lines.truncate(lines.trim_end().len());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_and_partner_have_lines_of_their_own() {
        assert_eq!(more("", None), "");
        let text = more("it has /tmp/\x1b[2J open", Some(i32::MAX));
        let want = "more: it has /tmp/?[2J open\nbecause of: process 2147483647\n";
        assert_eq!(text, want);
    }
}
