//! `armento leave`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say};
use armento_client::api::{Answer, Ask, KeptInfo};
use armento_client::{ANSWER, AskError, Session};
use armento_lab::Waiting;
use armento_model::clean;
use armento_noded::{Config, forget_kept, leave_without_daemon, plan_leave, takes_the_key};
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
    /// Delete checkpoints of programs whose home is lost, which this node keeps
    #[arg(long)]
    forget_kept: bool,
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
            if !args.forget_kept {
                keeps_nothing(&mut session)?;
            }
            session.ask(Ask::Leave, LEAVING).map_err(Failure::from)?;
            if args.forget_kept {
                forget_kept(&config);
            }
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

/// Programs of lost homes could be recovered from what this node keeps of them. Those of others go on without.
fn keeps_nothing(session: &mut Session) -> anyhow::Result<()> {
    let kept = match session.ask(Ask::Kept { all: false }, ANSWER) {
        Ok(Answer::Kept { kept, .. }) => kept,
        // A daemon that keeps nothing.
        Ok(_) | Err(AskError::Refused(_)) => return Ok(()),
        Err(e) => return Err(Failure::from(e).into()),
    };
    let lost: Vec<&KeptInfo> = kept.iter().filter(|k| !k.home_alive).collect();
    let Some(first) = lost.first() else {
        return Ok(());
    };
    let failure = Failure {
        message: format!(
            "this node keeps checkpoints of {} programs whose home is lost ({} of {} and others), which would be deleted; nothing was changed",
            lost.len(),
            clean(&first.command),
            first.home
        ),
        hint:
            "`armento farm recover --list` shows them; `armento leave --forget-kept` deletes them"
                .into(),
    };
    Err(failure.into())
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
