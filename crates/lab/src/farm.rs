//! Makes a farm of a lab's nodes: keys on n1, a daemon on each node, all joined.

use crate::lab::{Lab, Node};
use crate::spec::Spec;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Port of the daemons of a lab.
pub const PORT: u16 = 7717;

/// A daemon's output, in its node.
pub const LOG: &str = "/var/log/armento.log";

/// Time limit for all nodes to be alive: a few gossip periods; more means an error.
const ALIVE_MAX: Duration = Duration::from_secs(30);
/// … and to have reported their loads: gossip's period and a little.
const KNOWN_MAX: Duration = Duration::from_secs(5);
/// Interval between two requests for the list of nodes.
const CHECK_EVERY: Duration = Duration::from_millis(50);

impl Lab {
    /// Starts a lab, and its farm if the spec requests one. After `Err` nothing of it is left.
    pub fn up(spec: Spec) -> Result<Lab> {
        let lab = Lab::nodes_up(&spec)?;
        if spec.farm {
            start(&lab)?;
        }
        Ok(lab)
    }
}

/// Before: the nodes are up, no daemon runs. After: n1, or the server of direct links, has every node as alive and usually
/// their loads.
pub fn start(lab: &Lab) -> Result<()> {
    let nodes = lab.nodes();
    let server = |i| lab.plan().link.server(nodes.len(), i);
    let founder = server(0);
    let first = &nodes[founder];
    let made = armento(
        first,
        &[
            "farm",
            "init",
            "--name",
            &first.name,
            "--listen",
            &listen(first),
        ],
    )?;
    let token =
        join_token(&made).with_context(|| format!("`farm init` printed no token:\n{made}"))?;
    start_daemon(first)?;
    wait_alive(first, 1)?;
    for (i, node) in nodes.iter().enumerate().filter(|(i, _)| *i != founder) {
        if !lab.plan().link.joins(nodes.len(), founder, i) {
            way(first, &nodes[server(i)], node, "add")?;
        }
        armento(
            node,
            &[
                "join",
                token,
                &listen(first),
                "--name",
                &node.name,
                "--listen",
                &listen(node),
                // All nodes of a lab are one machine.
                "--same-machine",
            ],
        )?;
        start_daemon(node)?;
    }
    wait_alive(first, lab.nodes().len())?;
    for (i, node) in nodes.iter().enumerate() {
        if !lab.plan().link.joins(nodes.len(), founder, i) {
            way(first, &nodes[server(i)], node, "del")?;
        }
    }
    Ok(())
}

/// Adds or deletes the way by which a node reaches the founder through its own server. Only the founder has the farm's key and
/// admits nodes; a node that is known to all needs no way to it.
fn way(founder: &Node, server: &Node, node: &Node, what: &str) -> Result<()> {
    let forward = if what == "add" { "1" } else { "0" };
    let route = |to: &Node| format!("ip route {what} {}/32 via {}", to.addr, server.addr);
    let steps = [
        (
            server,
            format!("echo {forward} > /proc/sys/net/ipv4/ip_forward"),
        ),
        (node, route(founder)),
        (founder, route(node)),
    ];
    for (at, step) in steps {
        let mut c = at.command("sh");
        done(c.args(["-c", &step]), at, &format!("`{step}`"))?;
    }
    Ok(())
}

fn listen(node: &Node) -> String {
    format!("{}:{PORT}", node.addr)
}

/// Starts the node's daemon, in the background of the node.
pub fn start_daemon(node: &Node) -> Result<()> {
    let mut c = node.background(LOG, "armento");
    done(c.arg("node"), node, "starting the daemon").map(drop)
}

fn armento(node: &Node, args: &[&str]) -> Result<String> {
    done(
        node.command("armento").args(args),
        node,
        &format!("`armento {}`", args[0]),
    )
}

fn done(command: &mut Command, node: &Node, what: &str) -> Result<String> {
    let out = command.stdin(Stdio::null()).output()?;
    if !out.status.success() {
        bail!(
            "{}: {what} failed: {}",
            node.name,
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The word after `join` in the command that `farm init` prints.
fn join_token(printed: &str) -> Option<&str> {
    printed
        .lines()
        .find_map(|l| l.split_once("armento join ")?.1.split_whitespace().next())
}

/// Waits until `first` has so many nodes as alive.
pub fn wait_alive(first: &Node, want: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let out = first
            .command("armento")
            .args(["nodes", "--json"])
            .stdin(Stdio::null())
            .output()?;
        let (alive, known) = count(&String::from_utf8_lossy(&out.stdout));
        // A node without a reported load receives no processes; but a lab with all its nodes alive can be used.
        if known >= want || (alive >= want && begin.elapsed() > KNOWN_MAX) {
            return Ok(());
        }
        if begin.elapsed() > ALIVE_MAX {
            bail!(
                "only {alive} of {want} nodes are alive after {} s: {}\nhint: armento lab up --no-farm, then run `armento node` in each node",
                ALIVE_MAX.as_secs(),
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        std::thread::sleep(CHECK_EVERY);
    }
}

/// Number of nodes alive, and how many of these have reported a load.
fn count(json: &str) -> (usize, usize) {
    let Ok(all) = serde_json::from_str::<serde_json::Value>(json) else {
        return (0, 0);
    };
    let nodes = all["nodes"].as_array().map_or(&[][..], |n| n);
    let alive = || nodes.iter().filter(|n| n["state"] == "alive");
    let known = alive().filter(|n| n["cores"].as_u64() > Some(0));
    (alive().count(), known.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_in_the_output_of_farm_init() {
        let printed = "Farm made.\n\n  armento join K10ab::id:secret 10.77.1.1:7717\n";
        assert_eq!(join_token(printed), Some("K10ab::id:secret"));
        assert_eq!(join_token("nothing"), None);
    }

    #[test]
    fn only_live_nodes_count() {
        let j = r#"{"v":1,"nodes":[{"state":"alive","cores":1},{"state":"alive","cores":0},
                    {"state":"down","cores":1}]}"#;
        assert_eq!(count(j), (2, 1));
        assert_eq!(count(""), (0, 0));
    }
}
