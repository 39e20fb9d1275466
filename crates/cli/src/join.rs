//! `armento join TOKEN A:P`.

use crate::out::{Failure, say};
use crate::service;
use armento_noded::{Config, JoinOptions, join};
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento join armento1K6f…::1a2b3c4d:5e6f… 10.0.0.1:7117
  armento join TOKEN 10.0.0.1:7117 --name n2 --listen 10.0.0.2:7117

The secret in the token is sent only to a node that has proved to be of the token's farm.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// As `armento farm init` or `armento farm token` printed it
    token: String,
    /// A member that admits nodes: address and port
    #[arg(value_name = "A:P")]
    addr: String,
    /// Where to listen, TCP and UDP [default: 0.0.0.0:7117; port 0: any free one]
    #[arg(long, value_name = "A:P")]
    listen: Option<String>,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let options = JoinOptions {
        token: args.token,
        addr: args.addr,
        listen: args.listen,
        name: args.name,
    };
    let waits = service::waits(&config);
    let joined = join(&config, &options).map_err(Failure::from)?;
    say(&format!(
        "this node is {} of farm {} at {}\n\n{}",
        joined.node,
        joined.farm,
        joined.addr,
        waits.daemon_line(&config)
    ));
    Ok(0)
}
