//! `armento run`: parsed here; the keeper is forked and the program exec'd in its own pid.
//!
//! Next: `keeper/src/launch/start.rs`.

use crate::nodes;
use crate::out::Failure;
use armento_client::api::{Answer, Ask};
use armento_client::{AskError, Session};
use armento_keeper::{Begin, Birth, BirthError, Portable, Safety, Storm};
use armento_model::{Hint, NodeName};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::time::Duration;

const HELP: &str = "Examples:
  armento run lame -b 256 song.wav song.mp3
  armento run make -j8               processes of the tree go where there is room
  armento run --spread make -j8      … from the first instant: make stays, what it starts is placed
  armento run --cpu ./model          it computes, though it writes a log now and then
  mpirun -np 8 armento run ./rank    ranks begin where mpirun put them (`armento mpi-env`)
  armento run --on n3 ./simulate     on that node, wherever else there may be room
  armento run --safe ./model         it goes on when the node where it runs is lost
  armento run --safe=remote ./model  … or its home: `armento farm recover`, on another node
  armento run --storm 20 ./test      to a random node every 20 ms: the honest test of everything
  armento run --storm-call ./test    a move at every forwarded call: the hardest one (and slow)

Exit codes: the program's own; 128+N when signal N ended it; 126 not executable, 127 not found,
125 Armento itself failed. Without a daemon the program runs natively (with --on: 125).";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Run on this node
    #[arg(long, value_name = "NODE", conflicts_with_all = ["stay", "storm", "storm_call"])]
    on: Option<NodeName>,
    /// Keep the program at home
    #[arg(long, conflicts_with_all = ["storm", "storm_call"])]
    stay: bool,
    /// Begin on this node, and move later if that pays; or begin where there is room. A rank that mpirun, PVM or Slurm
    /// started begins here, as its launcher chose; any other program begins anywhere
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["on", "stay", "storm", "storm_call"])]
    begin: Option<BeginAt>,
    /// Follow the program's forks and execs: each new program is placed at the moment of its exec
    #[arg(long, conflicts_with_all = ["on", "stay", "storm", "storm_call"])]
    spread: bool,
    /// Use only CPU features that every node of the farm has, as far as glibc chooses
    #[arg(long)]
    portable: bool,
    /// The program computes: the calls that it makes now and then do not keep it at home
    #[arg(long, conflicts_with_all = ["on", "stay", "io"])]
    cpu: bool,
    /// The program works with files and sockets of its home: it stays there as long as memory lasts
    #[arg(long, conflicts_with_all = ["on", "stay", "spread", "storm", "storm_call"])]
    io: bool,
    /// Go on when the node where the program runs is lost: its home keeps a checkpoint of it, made anew every SECONDS, or, with
    /// exact, before anything leaves the program. With remote, also when its home is lost: another node keeps a checkpoint of
    /// the whole tree, made anew every SECONDS (`armento farm recover`)
    #[arg(long, value_name = "SECONDS|exact|remote[:SECONDS]", num_args = 0..=1, require_equals = true, default_missing_value = "30",
          value_parser = safety, conflicts_with_all = ["stay", "storm_call"])]
    safe: Option<Safety>,
    /// Make each call on files at home before it is answered: no write is posted, nothing read ahead or known at the node
    #[arg(long)]
    forward_files: bool,
    /// Connections between processes of the tree always go over this node, also where both ends are away
    #[arg(long)]
    no_direct_sockets: bool,
    /// Move every process of the tree to a random node every MS milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    storm: Option<u64>,
    /// Move every process of the tree at every call that is forwarded, and inside every one that blocks
    #[arg(long, conflicts_with = "storm")]
    storm_call: bool,
    /// A test of --safe: lose the body of each process of the tree every MS milliseconds, when it can go on
    #[arg(long, value_name = "MS", requires = "safe", conflicts_with_all = ["storm", "storm_call", "on"],
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    storm_loss: Option<u64>,
    /// A test of upgrades: as --storm, and the keeper begins its program anew after every two steps
    #[arg(long, value_name = "MS", conflicts_with_all = ["storm", "storm_call", "storm_loss", "on"],
          value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    storm_handover: Option<u64>,
    /// Repeat the storm with this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The program and its arguments
    #[arg(
        trailing_var_arg = true,
        required = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum BeginAt {
    Here,
    Anywhere,
}

/// Seconds between two checkpoints: at most a day.
const SAFE_MAX: u64 = 86_400;
const SAFE_DEFAULT: Duration = Duration::from_secs(30);

/// Between two checkpoints that another node keeps, if nothing is said.
const SAFE_REMOTE: Duration = Duration::from_secs(60);

fn safety(word: &str) -> Result<Safety, String> {
    let (every, exact) = (SAFE_DEFAULT, word == "exact");
    let seconds = |word: &str| {
        let seconds = word.parse().ok().filter(|s| (1..=SAFE_MAX).contains(s));
        seconds.map(Duration::from_secs).ok_or(format!(
            "not `exact`, `remote` or `remote:SECONDS`, nor seconds from 1 to {SAFE_MAX}"
        ))
    };
    let (every, remote) = match word.split_once(':') {
        _ if exact => (every, None),
        _ if word == "remote" => (every, Some(SAFE_REMOTE)),
        Some(("remote", word)) => (every, Some(seconds(word)?)),
        _ => (seconds(word)?, None),
    };
    Ok(Safety {
        every,
        exact,
        remote,
    })
}

fn begin(asked: Option<BeginAt>) -> Begin {
    match asked {
        Some(BeginAt::Here) => Begin::Here,
        Some(BeginAt::Anywhere) => Begin::Anywhere,
        None if armento_keeper::launcher().is_some() => Begin::Here,
        None => Begin::Anywhere,
    }
}

pub fn run(args: Args) -> anyhow::Result<i32> {
    let storm = match args.storm {
        _ if args.storm_call => Some(Storm::Call),
        ms => {
            let loss = args.storm_loss.map(Storm::Loss);
            let handover = args.storm_handover.map(Storm::Handover);
            ms.map(Storm::Every).or(loss).or(handover)
        }
    };
    if args.seed.is_some() && storm.is_none() {
        return Err(Failure {
            message: "--seed repeats a storm, and there is none".into(),
            hint: "add --storm MS, --storm-call, --storm-loss MS or --storm-handover MS".into(),
        }
        .into());
    }
    let birth = Birth {
        command: args.command,
        on: args.on,
        stay: args.stay,
        begin: begin(args.begin),
        spread: args.spread,
        portable: args.portable.then(portable).transpose()?.flatten(),
        hint: match (args.cpu, args.io) {
            (true, _) => Some(Hint::Cpu),
            (_, true) => Some(Hint::Io),
            _ => None,
        },
        storm,
        seed: args.seed,
        safe: args.safe,
        restart: None,
        forward_files: args.forward_files,
        direct_sockets: !args.no_direct_sockets,
    };
    // Only a daemon has the nodes; without one the next step reports that.
    if let Some(node) = birth.on.as_ref().filter(|_| Session::connect().is_ok()) {
        known_node(node)?;
    }
    if !birth.stay {
        warn_if_nothing_can_leave();
    }
    if let Some(what) = armento_keeper::command_gains(&birth.command) {
        let name = birth.command[0].display();
        if let Some(node) = &birth.on {
            return Err(Failure {
                message: format!(
                    "{name} is {what}: it can only run at home; nothing was started, because it was to run on {node}"
                ),
                hint: "nothing moves of a program with rights that its user lacks".into(),
            }
            .into());
        }
        eprintln!(
            "armento: {name} is {what}: it runs here, untraced, and stays\n\
             hint: nothing moves of a program with rights that its user lacks"
        );
        return Ok(not_started(&armento_keeper::run_native(&birth)));
    }
    match armento_keeper::run(&birth) {
        BirthError::NoDaemon(e) => without_daemon(&birth, &e),
        e => Ok(not_started(&e)),
    }
}

/// The daemon leaves a note while no program can leave this node: the user must see it before the program computes for
/// hours.
fn warn_if_nothing_can_leave() {
    let note = armento_client::api::node_note(&armento_client::api::socket_path());
    if let Ok(why) = std::fs::read_to_string(note)
        && Session::connect().is_ok()
    {
        eprintln!(
            "armento: it runs here: the clocks of all other nodes are too far from this node's ({})\nhint: {}",
            why.trim(),
            nodes::SYNCHRONISE
        );
    }
}

/// CPU features that all nodes have; `None` without a daemon: there is no farm, which the next step reports.
fn portable() -> anyhow::Result<Option<Portable>> {
    let Ok(mut s) = Session::connect() else {
        return Ok(None);
    };
    match s.ask(Ask::Common, armento_client::ANSWER) {
        Ok(Answer::Common { cpu, hwcaps }) => {
            let given = std::env::var("GLIBC_TUNABLES").ok();
            Ok(Some(Portable::new(cpu, &hwcaps, given.as_deref())))
        }
        Ok(_) => Err(crate::out::unexpected_answer()),
        Err(e) => Err(Failure::from(e).into()),
    }
}

/// The program runs natively, and its user is informed why nothing moves.
fn without_daemon(birth: &Birth, e: &AskError) -> anyhow::Result<i32> {
    if let Some(node) = &birth.on {
        return Err(Failure {
            message: format!("{e}; nothing was started, because it was to run on {node}"),
            hint: e.hint().to_owned(),
        }
        .into());
    }
    eprintln!(
        "armento: {e}; it runs natively and stays here\nhint: {}",
        e.hint()
    );
    Ok(not_started(&armento_keeper::run_native(birth)))
}

fn not_started(e: &BirthError) -> i32 {
    let (code, hint) = match e {
        BirthError::Exec(_, io) if io.kind() == ErrorKind::NotFound => {
            (127, "check the name and PATH")
        }
        BirthError::Exec(..) => (
            126,
            "is it a program for this machine, with its execute permission set?",
        ),
        _ => (
            125,
            "nothing was started; try again, or look at the daemon's log",
        ),
    };
    eprintln!("armento: {e}\nhint: {hint}");
    code
}

/// Whether `node` can be reached: checked before anything is started.
pub fn known_node(node: &NodeName) -> anyhow::Result<()> {
    let mut s = Session::connect().map_err(Failure::from)?;
    let answer = s
        .ask(Ask::Nodes, armento_client::ANSWER)
        .map_err(Failure::from)?;
    let Answer::Nodes { nodes } = answer else {
        return Ok(());
    };
    match nodes.iter().find(|n| n.name == *node) {
        Some(n) if n.state == "alive" && n.clock_apart => Err(Failure {
            message: format!(
                "the clock of {node} is {} ms from this node's, at most 20 are good; nothing was started",
                n.clock_us.unwrap_or(0).abs() / 1000
            ),
            hint: nodes::SYNCHRONISE.to_owned(),
        }
        .into()),
        Some(n) if n.state == "alive" => Ok(()),
        Some(n) => Err(Failure {
            message: format!("{node} is {}; nothing was started", n.state),
            hint: "`armento nodes` shows which nodes answer".to_owned(),
        }
        .into()),
        None => Err(Failure {
            message: format!("there is no node {node} in this farm; nothing was started"),
            hint: "`armento nodes` lists them".to_owned(),
        }
        .into()),
    }
}
