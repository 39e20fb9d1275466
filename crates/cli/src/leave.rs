//! `armento leave`.

use crate::out::{Failure, say};
use armento_client::api::Ask;
use armento_client::{AskError, Session};
use armento_noded::{Config, leave_without_daemon, takes_the_key};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "Example:
  armento leave

The daemon ends when the node has left. To come back, join again.";

/// The daemon gives processes a minute to return to their homes.
const LEAVING: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let key = takes_the_key(&config);
    match Session::connect_to(&config.socket_path()) {
        Ok(mut session) => {
            session.ask(Ask::Leave, LEAVING).map_err(Failure::from)?;
            say("this node has left its farm; its daemon has ended\n");
        }
        Err(AskError::NoDaemon { .. }) => {
            let name = leave_without_daemon(&config).map_err(Failure::from)?;
            say(&format!("{name} has left its farm\n"));
        }
        Err(e) => return Err(Failure::from(e).into()),
    }
    if key {
        say(
            "it held the farm's key: the other nodes continue, but no node can join them any more\n",
        );
    }
    Ok(0)
}
