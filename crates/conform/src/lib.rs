//! Conformance: every guest, run natively, at home, away and in a storm (of time, or of calls), must have the same
//! result.
//!
//! Everything that a user can see is compared: standard output and error, or the exact bytes on a terminal, exit status
//! or signal, the files left behind, and whether any process was left running. The guests are small C programs
//! (`guests/*.c`, embedded in the binary and compiled on demand), shell command lines of real programs and terminal
//! scripts (`guests/`).
//!
//! ```text
//! conform ── lab up ──► n1, n2, n3
//!    └ lab exec n1 -- conform --runner      (one or more; JSON lines both ways)
//!                        └ guest, as an ordinary user, in a fresh directory
//! ```
//!
//! The native run is the reference by definition. Nothing is retried: a difference is a failure, and its evidence is
//! kept. Start at [`run`]; then `session/`, `runner/`, `compare/`.

mod compare;
mod farm;
mod faults;
mod guests;
mod runner;
mod session;
mod sys;
mod task;
mod tree;
mod user;

use std::path::PathBuf;

use anyhow::{Context, Result};
pub use task::Mode;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  armento conform                              every guest, every mode
  armento conform --mode storm pipes signals   two guests, moved about
  armento conform --mode storm-call pipes      moved at every forwarded call: the hardest, and slow
  armento conform --mode lost pipes           with --safe: its body is lost again and again
  armento conform --mode handover pipes       its keeper begins its program anew again and again
  armento conform --mode storm-forward pipes   as storm, and nothing of files is known or posted at nodes
  armento conform --mode spread 'real-*'       what it starts is placed at its exec; it is followed at home
  armento conform --mode native --runs 3       are the guests deterministic here?
  armento conform --suite perl:op/* --mode away  a program's own tests
  armento conform ./mine.sh --mode storm       a script of your own: does it show the same when it is moved about?
  armento conform --faults --moves 1000 --seed 7  does every program survive, or die truthfully, when things break?
  armento conform --faults --safe --programs 100  does every program that is kept safe go on when nodes are lost?
  armento conform --to n2 --mode home,away     on a real farm: guests of this node go to n2
  armento conform --list                       names and what they prove")]
pub struct Args {
    /// Guests to run (a trailing * matches the rest of a name; a path is a shell script of your own); all when
    /// none is named.
    #[arg(value_name = "GUEST")]
    pub guests: Vec<String>,
    /// With no guest named: also those that need big packages or much time.
    #[arg(long)]
    pub long: bool,
    /// Instead of guests: test suites of well-known programs, or one test (`all`, `perl`, `perl:op/fork.t`).
    /// Their Debian sources are fetched once.
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    pub suite: Vec<String>,
    /// Ways to run each guest; native is always run once, as the reference.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "native,home,away,storm,storm-call"
    )]
    pub mode: Vec<Mode>,
    /// Print one JSON document (schema armento.conform/1; with --faults armento.faults/1) instead of lines.
    #[arg(long)]
    pub json: bool,
    /// Run each guest this many times in each mode.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Storm: move everything every so many milliseconds.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub storm_ms: u32,
    /// Storm: seed of its random numbers; run R of a guest uses seed + R.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// List the guests and exit.
    #[arg(long)]
    pub list: bool,
    /// Keep the guests' directories and the lab.
    #[arg(long)]
    pub keep: bool,
    /// Use this lab, which is up already, and leave it up.
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
    /// Run on this machine, which is a node of a farm, instead of in a lab; guests go away to this node of it.
    #[arg(long, value_name = "NODE", conflicts_with = "lab")]
    pub to: Option<String>,
    /// Guests running at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// A guest that takes longer than this many seconds hangs: it is ended and counted as failed.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub timeout: u32,
    /// A known gap fails, and so does a guest not seen where its mode should have put it.
    #[arg(long)]
    pub strict: bool,
    /// Instead of guests: move programs around while keepers, hosts, daemons, nodes and links are killed, frozen and
    /// cut, and check the result of each.
    #[arg(long, conflicts_with_all = ["guests", "suite", "list", "lab"])]
    pub faults: bool,
    /// With --faults: moves to be made.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub moves: u64,
    /// With --faults: the programs are kept safe (`armento run --safe`), and lose their bodies.
    #[arg(long, requires = "faults")]
    pub safe: bool,
    /// With --faults --safe: programs to be run.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub programs: u64,
    /// With --faults: only the program with this number, of those that the seed gives.
    #[arg(long, requires = "faults", value_name = "N")]
    pub life: Option<u64>,
    /// The `armento` to test; by default this program.
    #[arg(long, value_name = "FILE", hide = true)]
    pub armento: Option<PathBuf>,
    /// Run guests named on standard input; started by conform itself inside a node.
    #[arg(long, hide = true)]
    pub runner: bool,
}

/// Runs the suite. 0: all equal; 1: something differs; 2: nothing could be run.
pub fn run(args: &Args) -> Result<i32> {
    if args.runner {
        runner::serve().context("conform runner")?;
        return Ok(0);
    }
    if args.faults {
        return faults::run(args);
    }
    let chosen = guests::select_units(&args.suite)?;
    let mut guests = chosen.units;
    if args.suite.is_empty() || !args.guests.is_empty() {
        guests.extend(guests::select(&args.guests, args.long || args.list)?);
    }
    if args.list {
        session::list(&guests)?;
        for (name, why) in &chosen.absent {
            eprintln!("the test suite of {name} is not available: {why}");
        }
        return Ok(0);
    }
    session::run(args, &guests, &chosen.absent)
}
