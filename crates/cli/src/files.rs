//! `armento files`.

use crate::out::{say, say_json, table};
use crate::ps::processes;
use armento_client::api::{Connections, ProcInfo};
use armento_model::{Pid, clean, size};
use serde_json::{Value, json};

const HELP: &str = "Examples:
  armento files                    what your programs that were away did with files
  armento files 4711
  armento files --json | jq '.procs[] | select(.forwarded > 1000) | .pid'

CALLS counts the calls that home answered, each a round trip. The others were answered
where the program runs: POSTED writes and closes, LOOKUPS that led nowhere and links,
READS of files that were read ahead, DEVICES like /dev/null, and DIRECT calls on files
of mounts that nodes share (`armento dfsa`), which moved SHARED bytes. MESSAGES are reads
and writes of connections between processes that are away, which CARRIED bytes from node
to node; with a PID a line for each busy connection says whether it goes so, or why not.
The counts are up to a second old.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// One process, by its pid at home
    pid: Option<Pid>,
    /// Processes of all homes
    #[arg(long, short)]
    all: bool,
    /// Print JSON (schema armento.files/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let mut procs = processes(args.all)?;
    let wanted = |p: &ProcInfo| match args.pid {
        Some(pid) => p.pid == pid,
        None => p.forwarded > 0 || p.files.calls() > 0,
    };
    procs.retain(wanted);
    if let (Some(pid), true) = (args.pid, procs.is_empty()) {
        anyhow::bail!("no process {pid} runs under Armento here; `armento ps` lists those that do");
    }
    if args.json {
        let procs: Vec<Value> = procs.iter().map(fields).collect();
        say_json("armento.files/1", json!({ "procs": procs }));
    } else {
        say(&render(&procs));
        if let (Some(_), [one]) = (args.pid, &procs[..]) {
            say(&connections(one));
        }
    }
    Ok(0)
}

fn fields(p: &ProcInfo) -> Value {
    json!({
        "pid": p.pid, "home": p.home, "place": p.place, "command": p.command,
        "forwarded": p.forwarded, "files": p.files, "connections": p.connections,
    })
}

/// A line for each busy connection.
fn connections(p: &ProcInfo) -> String {
    let lines = p.connections.as_ref().map(Connections::lines);
    let lines = lines.unwrap_or_default().into_iter();
    lines.map(|line| format!("connection: {line}\n")).collect()
}

const HEADS: [(&str, bool); 15] = [
    ("PID", true),
    ("HOME", false),
    ("WHERE", false),
    ("CALLS", true),
    ("POSTED", true),
    ("WRITTEN", true),
    ("LOOKUPS", true),
    ("READS", true),
    ("READ", true),
    ("DEVICES", true),
    ("DIRECT", true),
    ("SHARED", true),
    ("MESSAGES", true),
    ("CARRIED", true),
    ("COMMAND", false),
];

fn render(procs: &[ProcInfo]) -> String {
    table(&HEADS, &procs.iter().map(row).collect::<Vec<_>>())
}

fn row(p: &ProcInfo) -> Vec<String> {
    let f = &p.files;
    vec![
        p.pid.to_string(),
        p.home.to_string(),
        p.place.to_string(),
        p.forwarded.to_string(),
        f.posted.to_string(),
        size(f.posted_bytes >> 10),
        f.lookups.to_string(),
        f.reads.to_string(),
        size(f.read_bytes >> 10),
        f.devices.to_string(),
        f.direct.to_string(),
        size(f.direct_bytes >> 10),
        f.messages.to_string(),
        size(f.message_bytes >> 10),
        clean(&p.command),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_model::FileCounts;

    #[test]
    fn each_process_has_one_line() {
        let files = FileCounts {
            posted: 12,
            posted_bytes: 3 << 20,
            lookups: 4600,
            reads: 700,
            read_bytes: 5 << 20,
            devices: 0,
            direct: 90,
            direct_bytes: 1 << 20,
            messages: 8,
            message_bytes: 4 << 10,
        };
        let p = ProcInfo {
            files,
            ..crate::ps::tests::proc()
        };
        let golden = "\
\x20PID  HOME  WHERE  CALLS  POSTED  WRITTEN  LOOKUPS  READS   READ  DEVICES  DIRECT  SHARED  MESSAGES  CARRIED  COMMAND
4711  n1    n3       345      12    3.0 M     4600    700  5.0 M        0      90   1.0 M         8      4 K  lame a?[2J.wav
";
        assert_eq!(render(&[p]), golden);
    }
}
