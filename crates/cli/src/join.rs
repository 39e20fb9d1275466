//! `armento join TOKEN A:P`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say};
use crate::{nodes, service};
use armento_lab::Waiting;
use armento_model::clean;
use armento_noded::{Config, JoinOptions, join, plan_join};
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento join armento1K6f…::1a2b3c4d:5e6f… 10.0.0.1:7117
  armento join TOKEN n1 --name n2
  armento join TOKEN n1.example.org:7117 --address 198.51.100.7    behind NAT
  armento join TOKEN n1 --dry-run

The secret in the token is sent only to a node that has proved to be of the token's farm. Before that
node admits this one it tries to reach it, TCP and UDP: a join that cannot work is refused here.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The token that `armento farm init` or `armento farm invite` printed
    token: String,
    /// A member that admits nodes: address or name, and port if that is not 7117
    #[arg(value_name = "A:P")]
    addr: String,
    /// Where to listen, TCP and UDP [default: all addresses, port 7117; port 0: any free one]
    #[arg(long, value_name = "A:P")]
    listen: Option<String>,
    /// Where the others reach this node [default: the address that the member sees]
    #[arg(long, value_name = "A[:P]")]
    address: Option<String>,
    /// Join although the member cannot reach this node now
    #[arg(long)]
    no_check: bool,
    /// Join although another node has this machine-id: several nodes on one machine
    #[arg(long)]
    same_machine: bool,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dry: DryRun,
}

/// A warning about a join that succeeded.
fn warn(what: &str, hint: &str) {
    eprintln!("armento: {what}\nhint: {hint}");
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let options = JoinOptions {
        token: args.token,
        addr: args.addr,
        listen: args.listen,
        address: args.address,
        name: args.name,
        check: !args.no_check,
        same_machine: args.same_machine,
    };
    if args.dry.dry_run {
        let plan = plan_join(&config, &options).map_err(Failure::from)?;
        let member = plan
            .member
            .map_or_else(String::new, |m| format!(" through {m}"));
        let would = [
            format!("join{member} as {} at {}", plan.node, plan.addr),
            format!(
                "store keys and members in {}",
                clean(&plan.state.display().to_string())
            ),
        ];
        return Ok(dry_run::show(&would, false));
    }
    let waits = service::waits(&config);
    let waiting = Waiting::new(format!("joining through {}", options.addr));
    let joined = join(&config, &options).map_err(Failure::from)?;
    drop(waiting);
    if let Some(clock) = &joined.clock {
        warn(clock, nodes::SYNCHRONISE);
    }
    if !joined.checked {
        warn(
            "the member is of an older version and did not try to reach this node",
            "`armento nodes` there must show it as alive once its daemon runs",
        );
    }
    say(&format!(
        "this node is {} of farm {} at {}\n\n{}",
        joined.node,
        joined.farm,
        joined.addr,
        waits.daemon_line(&config)
    ));
    Ok(0)
}
