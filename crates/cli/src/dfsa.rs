//! `armento dfsa`.

use crate::out::{ask, say, say_json, table, unexpected_answer};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask, DfsaInfo, DfsaMount, DfsaNode};
use armento_model::clean;
use serde_json::json;

const HELP: &str = "Examples:
  armento dfsa                     the mounts that this node shares, and with whom
  armento dfsa --json | jq '.mounts[].nodes[] | select(.direct | not)'

Mounts are declared by `dfsa` and `dfsa_relaxed` in /etc/armento/config.toml of each node.
When a program moves, its home and the other node write a file into each of them that the
other has to find; only then are files opened directly. A node is listed once a program of
this home was there.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Print JSON (schema armento.dfsa/1)
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let info = match ask(Ask::Dfsa, ANSWER)? {
        Answer::Dfsa(info) => info,
        _ => return Err(unexpected_answer()),
    };
    if args.json {
        say_json("armento.dfsa/1", json!(info));
    } else {
        say(&render(&info));
    }
    Ok(0)
}

const HEADS: [(&str, bool); 5] = [
    ("MOUNT", false),
    ("TYPE", false),
    ("NODE", false),
    ("FILES", false),
    ("WHY", false),
];

fn render(info: &DfsaInfo) -> String {
    if info.mounts.is_empty() {
        return format!(
            "{}: no mount is shared (dfsa in /etc/armento/config.toml)\n",
            info.node
        );
    }
    let rows: Vec<Vec<String>> = info.mounts.iter().flat_map(rows).collect();
    table(&HEADS, &rows)
}

fn rows(m: &DfsaMount) -> Vec<Vec<String>> {
    let row = |node: &str, files: &str, why: &str| {
        let relaxed = if m.relaxed { ", relaxed" } else { "" };
        let kind = match m.kind.as_str() {
            "" => "-".to_owned(),
            kind => format!("{kind}{relaxed}"),
        };
        let path = clean(&m.path.display().to_string());
        [&path, &kind, node, files, why].map(str::to_owned).to_vec()
    };
    let node = |n: &DfsaNode| {
        let files = if n.direct { "direct" } else { "through home" };
        row(n.node.as_str(), files, &clean(&n.why))
    };
    match (m.problem.as_str(), m.nodes.is_empty()) {
        ("", true) => vec![row("-", "-", "no program of this node was away yet")],
        ("", false) => m.nodes.iter().map(node).collect(),
        (problem, _) => vec![row("-", "through home", &clean(problem))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mount_and_node_has_one_line() {
        let node = |name: &str, direct, why: &str| DfsaNode {
            node: name.parse().expect("name"),
            direct,
            why: why.into(),
        };
        let mount = |path: &str, kind: &str, problem: &str, nodes| DfsaMount {
            path: path.into(),
            relaxed: kind == "NFS",
            kind: kind.into(),
            problem: problem.into(),
            nodes,
        };
        let info = DfsaInfo {
            node: "n1".parse().expect("name"),
            mounts: vec![
                mount(
                    "/data",
                    "Lustre",
                    "",
                    vec![node("n2", true, ""), node("n3", false, "n3: it differs")],
                ),
                mount("/home", "NFS", "", Vec::new()),
                mount("/x", "", "nothing is mounted at /x", Vec::new()),
            ],
        };
        let golden = "\
MOUNT  TYPE          NODE  FILES         WHY
/data  Lustre        n2    direct
/data  Lustre        n3    through home  n3: it differs
/home  NFS, relaxed  -     -             no program of this node was away yet
/x     -             -     through home  nothing is mounted at /x
";
        let lines: Vec<String> = render(&info)
            .lines()
            .map(|l| l.trim_end().to_owned())
            .collect();
        assert_eq!(lines.join("\n") + "\n", golden);
    }
}
