//! `armento why PID`.

use crate::out::{ask, say, say_json, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, AwayPrice};
use armento_model::{NodeName, Pid, Stay, clean, size};
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
        away,
        safe,
        connections,
    } = answer
    else {
        return Err(unexpected_answer());
    };
    let setting = setting(args.pid, stay, &detail);
    if args.json {
        let fields = json!({
            "pid": pid, "place": place, "stay": stay,
            "explanation": explanation, "remedy": remedy,
            "detail": (!detail.is_empty()).then_some(&detail), "partner": partner,
            "away": away, "setting": setting, "safe": safe, "connections": connections,
        });
        say_json("armento.why/1", fields);
        return Ok(0);
    }
    let cost = files(away.as_ref(), place.as_ref());
    let place = place.map_or_else(|| "an unknown node".into(), |n| n.to_string());
    let code = stay.map_or_else(String::new, |s| format!(" [{}]", s.code()));
    let safe = safe.map_or_else(String::new, |s| format!("safe: {}\n", clean(&s.words())));
    let connections = connections.unwrap_or_default().lines();
    let connections: String = connections
        .iter()
        .map(|line| format!("connection: {line}\n"))
        .collect();
    let more = more(&detail, partner) + &cost + &safe + &connections;
    let setting = setting.map_or_else(String::new, |s| format!("hint: {s}\n"));
    say(&format!(
        "{pid} is on {place}{code}: {explanation}\n{more}remedy: {remedy}\n{setting}"
    ));
    Ok(0)
}

/// The setting of MPI with which a process would move that stays.
fn setting(pid: Pid, stay: Option<Stay>, detail: &str) -> Option<String> {
    if stay != Some(Stay::SharedMemory) {
        return None;
    }
    // KERNEL: proc_pid_environ(5): its first environment; not readable where it is another user's.
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    armento_mpi::advice(&environ, detail)
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

/// What its files cost it away from home.
fn files(away: Option<&AwayPrice>, place: Option<&NodeName>) -> String {
    let Some(a) = away else {
        return String::new();
    };
    let percent = a.lost_permille as f64 / 10.0;
    let bytes = size(a.bytes_per_s >> 10);
    let (calls, node) = (a.calls_per_s, &a.node);
    match place == Some(node) {
        true => format!(
            "files: {calls} calls a second wait for home, {bytes}/s cross the network: on {node} it loses {percent:.0} % of its \
             time by that\n"
        ),
        false => format!(
            "files: on {node} {calls} calls a second would wait for home, {bytes}/s cross the network: it would lose \
             {percent:.0} % of its time\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_of_files_is_told() {
        let n2: NodeName = "n2".parse().expect("name");
        let price = AwayPrice {
            node: n2.clone(),
            calls_per_s: 3400,
            bytes_per_s: 2 << 20,
            lost_permille: 314,
        };
        assert_eq!(files(None, Some(&n2)), "");
        assert_eq!(
            files(Some(&price), Some(&n2)),
            "files: 3400 calls a second wait for home, 2.0 M/s cross the network: on n2 it loses 31 % of its time by that\n"
        );
        let there = files(Some(&price), None);
        assert!(
            there.starts_with("files: on n2 3400 calls a second would wait"),
            "{there}"
        );
    }

    #[test]
    fn detail_and_partner_have_lines_of_their_own() {
        assert_eq!(more("", None), "");
        let text = more("it has /tmp/\x1b[2J open", Some(i32::MAX));
        let want = "more: it has /tmp/?[2J open\nbecause of: process 2147483647\n";
        assert_eq!(text, want);
    }
}
