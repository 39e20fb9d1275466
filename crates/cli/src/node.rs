//! `armento node`: the daemon, in the foreground; `drain.rs` has its verbs.

use crate::drain;
use crate::out::Failure;
use armento_noded::run_service;
use std::path::PathBuf;

const HELP: &str = "Examples:
  armento node
  armento node --config /etc/armento/n1.toml
  armento node --wait --guests armento-guests.scope      as armento.service does
  ARMENTO_LOG=debug armento node
  armento node drain --why 'new memory'                   see armento node drain --help

Keys of the configuration (TOML), with what holds if they are not given:
  listen = \"A:P\"             where to listen             (as joined)
  address = \"A[:P]\"          where others reach it       (as joined)
  state = \"DIR\"              keys and books              (/var/lib/armento; ARMENTO_STATE)
  socket = \"PATH\"            for commands on this node   (/run/armento/control.sock; ARMENTO_SOCKET)
  wire = \"tls\" | \"plain\"     of keepers and hosts        (the farm's)
  policy = \"armento\" | \"mosix\" | \"static\" | \"none\"       (armento)
  allow_root = false         processes of root may move
  allow_upgrade = false      a holder of the farm's key may replace this node's program
  upgrade_keepers = true     keepers become the daemon's program, too
  direct_sockets = true      connections between moved programs go from node to node
  send_to = [\"n2\"]           nodes we send to            (all; rules: armento farm trust --help)
  accept_from = [\"n2\"]       homes that may send guests (all)
  freeze_ms, dead_ms         guests without word from home (10000, 30000)
  gossip_period_ms           between two load messages   (1000)
  mem_reserve_permille       memory kept free            (50, at least 128 MiB)
  packing_percent            how full nodes should be where a new program is as fast on several
                             (0: the emptiest first)
  owner_first = false        guests leave while own work, or a user at a terminal, is here
  owner_idle_ms              … and may come back so long after (60000)
  guest_mem_max_kib          most memory of one guest tree (what is not kept free)
  guest_cpu_weight           its weight, a process has 100 (as one process)
  guest_procs_max            its processes and threads   (8192)
  mfs = false | true | \"DIR\"  mount files of all nodes (at /mfs), and serve those of this one (false)
  [[mfs_export]]             what is served: path, read_only, hidden (everything)
  [[guest_users]]            limits of all that a user of another home has here: users, mem_max_kib,
                             cpu_weight, cpu_max_percent, procs_max
  name = \"n1\"                must be the name it joined by

Processes and guests outlive the daemon: stop and start it as you like.";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Empty nodes for maintenance: guests leave, none comes, own programs go elsewhere
    #[command(after_help = drain::DRAIN_HELP)]
    Drain(drain::Drain),
    /// End `drain`: the nodes take part again
    #[command(after_help = drain::UNDRAIN_HELP)]
    Undrain(drain::Undrain),
}

#[derive(clap::Args)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    cmd: Option<Cmd>,
    /// Settings [default: /etc/armento/config.toml if it exists]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Without a farm wait for `armento farm init` or `join`, also after `armento leave`; as a service does
    #[arg(long)]
    wait: bool,
    /// Keep guests in this scope of systemd, apart from the daemon's service; made if it is not there
    #[arg(long, value_name = "NAME.scope")]
    guests: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    match &args.cmd {
        Some(Cmd::Drain(args)) => return drain::drain(args),
        Some(Cmd::Undrain(args)) => return drain::undrain(args),
        None => {}
    }
    let guests = args.guests.as_deref();
    run_service(args.config.as_deref(), args.wait, guests).map_err(Failure::from)?;
    Ok(0)
}
