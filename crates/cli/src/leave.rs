//! `armento leave`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say};
use armento_client::api::Ask;
use armento_client::{AskError, Session};
use armento_lab::Waiting;
use armento_noded::{Config, leave_without_daemon, plan_leave, takes_the_key};
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "Examples:
  armento leave
  armento leave --dry-run

The daemon ends when the node has left. To come back, join again.";

/// The daemon gives processes a minute to return to their homes.
const LEAVING: Duration = Duration::from_secs(90);

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dry: DryRun,
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let key = takes_the_key(&config);
    if args.dry.dry_run {
        return plan(&config, key);
    }
    let waiting = Waiting::new("leaving: processes go home");
    let left: String = match Session::connect_to(&config.socket_path()) {
        Ok(mut session) => {
            session.ask(Ask::Leave, LEAVING).map_err(Failure::from)?;
            "this node has left its farm; its daemon has ended\n".into()
        }
        Err(AskError::NoDaemon { .. }) => {
            let name = leave_without_daemon(&config).map_err(Failure::from)?;
            format!("{name} has left its farm\n")
        }
        Err(e) => return Err(Failure::from(e).into()),
    };
    drop(waiting);
    say(&left);
    if key {
        say(
            "it held the farm's key: the other nodes continue, but no node can join them any more\n",
        );
    }
    Ok(0)
}

fn plan(config: &Config, key: bool) -> anyhow::Result<i32> {
    let mut would = match Session::connect_to(&config.socket_path()) {
        Ok(_) => dry_run::leave()?,
        Err(AskError::NoDaemon { .. }) => {
            let name = plan_leave(config).map_err(Failure::from)?;
            vec![format!(
                "tell the members that {name} leaves, and delete its keys"
            )]
        }
        Err(e) => return Err(Failure::from(e).into()),
    };
    if key {
        would.push("delete the farm's key with them: no node can join the others any more".into());
    }
    Ok(dry_run::show(&would, false))
}
