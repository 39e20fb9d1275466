//! `armento service booted`: the unit of a node that has started without a disk. It joins the farm with what the initramfs
//! left, and tells the boot server so.

use crate::out::{Failure, ask};
use armento_client::ANSWER;
use armento_client::api::{Answer, Ask};
use armento_noded::{Config, JoinOptions, join};
use armento_provision::init::{Joining, NODE_FILE, NodeFile, Servers};
use armento_provision::stage::Step;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const HELP: &str = "Example:
  armento service booted

ExecStart= of armento-boot.service, on nodes that `armento boot` started.";

/// The daemon notices within a second that its farm is there, and hears of the others within another.
const UP: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(300);

#[derive(clap::Args)]
pub struct Args {
    /// What the initramfs left
    #[arg(long, value_name = "F", default_value = NODE_FILE)]
    file: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let bytes = std::fs::read(&args.file)?;
    let word: NodeFile = serde_json::from_slice(&bytes)?;
    let servers = Servers::known(word.mac, &word.servers);
    servers.tell(Step::System, None);
    let done = be_member(&word, &servers);
    match &done {
        Ok(()) => servers.tell(Step::Joined, None),
        Err(e) => servers.tell(Step::System, Some(&e.to_string())),
    }
    done.map(|()| 0)
}

fn be_member(word: &NodeFile, servers: &Servers) -> anyhow::Result<()> {
    if !is_alive() {
        let config = Config::load(None).map_err(Failure::from)?;
        let joining = word.joining.clone();
        // The first token is used up by a join that failed late.
        let joined = joining.map(|j| try_join(&config, word, &j));
        if !matches!(joined, Some(Ok(()))) {
            let another = servers
                .joining()
                .map_err(|e| anyhow::anyhow!("no token: {e}"))?;
            try_join(&config, word, &another)?;
        }
    }
    let until = Instant::now() + UP;
    while !is_alive() {
        if Instant::now() > until {
            anyhow::bail!(
                "it has joined, and its daemon does not answer: systemctl status armento"
            );
        }
        sleep(AGAIN);
    }
    Ok(())
}

fn try_join(config: &Config, word: &NodeFile, joining: &Joining) -> anyhow::Result<()> {
    let options = JoinOptions {
        token: joining.token.clone(),
        addr: joining.member.clone(),
        listen: None,
        address: Some(word.address.to_string()),
        name: Some(word.node.clone()),
        check: true,
        same_machine: false,
    };
    join(config, &options).map_err(Failure::from)?;
    Ok(())
}

/// Whether the daemon runs as a member of a farm.
fn is_alive() -> bool {
    let nodes = ask(Ask::Nodes, ANSWER);
    matches!(nodes, Ok(Answer::Nodes { nodes }) if nodes.iter().any(|n| n.here))
}
