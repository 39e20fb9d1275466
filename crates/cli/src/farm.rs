//! `armento farm init`; tokens are in `invite.rs`, `trust`, `reload` and `remove` in `trust.rs`, the switches of a node
//! in `switches.rs`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say};
use crate::{allocation, choice, discover, invite, recover, service, switches, trust, upgrade};
use armento_model::clean;
use armento_noded::{Config, FarmError, InitOptions, TOKEN_TTL, TOKEN_USES, Wire, init, plan_init};
use std::path::PathBuf;

const INIT_HELP: &str = "Examples:
  armento farm init
  armento farm init --address 10.0.0.1 --name n1
  armento farm init --listen 10.0.0.1:7117
  armento farm init --dry-run        what would be done, and whether it can
  armento farm init --wire plain     calls and memory unprotected: isolated networks only";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make a farm with this node as its first; prints the command with which others join
    #[command(after_help = INIT_HELP)]
    Init(Init),
    /// Look for farms on the local network
    #[command(after_help = discover::HELP)]
    Discover(discover::Args),
    /// Make a token with which nodes join; prints the command for them
    #[command(alias = "token", after_help = invite::INVITE_HELP)]
    Invite(invite::Invite),
    /// Show the tokens: until when they are valid, and how many nodes they admit
    #[command(after_help = invite::LIST_HELP)]
    List(invite::List),
    /// Make all tokens invalid, and give the farm a new secret
    #[command(after_help = invite::ROTATE_HELP)]
    Rotate(invite::Rotate),
    /// Show or change the nodes that this node trusts: where it sends processes, which guests it takes
    #[command(after_help = trust::HELP)]
    Trust(trust::Trust),
    /// Make the daemon read its configuration again
    #[command(after_help = trust::RELOAD_HELP)]
    Reload(trust::Reload),
    /// Remove a node from the farm for good, or make a token invalid
    #[command(after_help = trust::REMOVE_HELP)]
    Remove(trust::Remove),
    /// Make a farm of a Slurm allocation, run a program on it, and end it
    #[command(after_help = allocation::HELP)]
    Allocation(allocation::Allocation),
    /// Show what is switched off on this node, and how many processes are away or here
    #[command(after_help = switches::STATUS_HELP)]
    Status(switches::Status),
    /// Take part in the farm again
    #[command(after_help = switches::START_HELP)]
    Start(switches::Start),
    /// Own processes home, guests away; none leaves or arrives until `start`
    #[command(after_help = switches::STOP_HELP)]
    Stop(switches::Going),
    /// Send guests away and accept none
    #[command(after_help = switches::DRAIN_HELP)]
    Drain(switches::Drain),
    /// Accept no guests
    #[command(after_help = switches::BLOCK_HELP)]
    Block(switches::Switch),
    /// Keep own processes here, unless a user moves them
    #[command(after_help = switches::STAY_HELP)]
    Stay(switches::Switch),
    /// Do not report this node's load, and move no process automatically
    #[command(after_help = switches::QUIET_HELP)]
    Quiet(switches::Switch),
    /// Send guests away, once
    #[command(after_help = switches::EXPEL_HELP)]
    Expel(switches::Going),
    /// Bring own processes home, once
    #[command(after_help = switches::BRING_HELP)]
    Bring(switches::Going),
    /// Let programs of a lost home go on here, from their checkpoints (`armento run --safe=remote`)
    #[command(after_help = recover::HELP)]
    Recover(recover::Recover),
    /// Replace the program of each node in turn, while programs run
    #[command(after_help = upgrade::HELP)]
    Upgrade(upgrade::Upgrade),
}

#[derive(clap::Args)]
pub struct Init {
    /// Where to listen, TCP and UDP [default: all addresses, port 7117; port 0: any free one]
    #[arg(long, value_name = "A:P")]
    listen: Option<String>,
    /// Where the others reach this node [default: the address of the default route, or the only one]
    #[arg(long, value_name = "A[:P]")]
    address: Option<String>,
    /// How processes' calls and memory travel; daemons always use TLS
    #[arg(long, value_enum, default_value = "tls")]
    wire: WireArg,
    /// Name of this node [default: the host's name]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dry: DryRun,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum WireArg {
    Tls,
    Plain,
}

pub fn run(cmd: Cmd) -> anyhow::Result<i32> {
    match cmd {
        Cmd::Init(args) => make(args),
        Cmd::Discover(args) => discover::run(args),
        Cmd::Invite(args) => invite::invite(&args),
        Cmd::List(args) => invite::list(&args),
        Cmd::Rotate(args) => invite::rotate(&args),
        Cmd::Trust(args) => trust::trust(args),
        Cmd::Reload(args) => trust::reload(&args),
        Cmd::Remove(args) => trust::remove(args),
        Cmd::Allocation(args) => allocation::run(&args),
        Cmd::Status(args) => switches::status(&args),
        Cmd::Start(args) => switches::start(&args),
        Cmd::Stop(args) => switches::stop(&args),
        Cmd::Drain(args) => switches::drain(&args),
        Cmd::Block(args) => switches::block(&args),
        Cmd::Stay(args) => switches::stay(&args),
        Cmd::Quiet(args) => switches::quiet(&args),
        Cmd::Expel(args) => switches::expel(&args),
        Cmd::Recover(args) => recover::recover(&args),
        Cmd::Upgrade(args) => upgrade::upgrade(&args),
        Cmd::Bring(args) => switches::bring(&args),
    }
}

fn make(args: Init) -> anyhow::Result<i32> {
    let config = Config::load(args.config.as_deref()).map_err(Failure::from)?;
    let mut options = InitOptions {
        listen: args.listen,
        address: args.address,
        name: args.name,
        wire: match args.wire {
            WireArg::Tls => Wire::Tls,
            WireArg::Plain => Wire::Plain,
        },
    };
    if args.dry.dry_run {
        let plan = match plan_init(&config, &options) {
            Err(FarmError::Choose(all)) => {
                options.address = Some(choice::address(&all)?);
                plan_init(&config, &options)
            }
            plan => plan,
        };
        let plan = plan.map_err(Failure::from)?;
        let would = [
            format!(
                "make a farm with {} at {} as its first node",
                plan.node, plan.addr
            ),
            format!(
                "store its keys in {}",
                clean(&plan.state.display().to_string())
            ),
            format!("print a token that admits {TOKEN_USES} nodes"),
        ];
        return Ok(dry_run::show(&would, false));
    }
    let waits = service::waits(&config);
    let made = match init(&config, &options) {
        Err(FarmError::Choose(all)) => {
            options.address = Some(choice::address(&all)?);
            init(&config, &options)
        }
        made => made,
    };
    let made = made.map_err(Failure::from)?;
    let mut text = format!(
        "farm {} is made; this node is {} at {}\n\n{}",
        made.farm,
        made.node,
        made.addr,
        waits.daemon_line(&config)
    );
    if let Some(token) = made.token {
        let join = format!("armento join {token} {}", made.addr);
        text += &format!(
            "on each other node:   {join}\n\nThe token admits {TOKEN_USES} nodes within {} hours; `armento farm invite` makes others.\n",
            TOKEN_TTL.as_secs() / 3600
        );
    }
    say(&text);
    Ok(0)
}
