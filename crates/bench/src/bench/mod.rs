//! The benches, the longest last: those for which no time is left are reported.

mod beside;
mod birth;
mod bulk;
mod bytes;
mod call;
mod first;
mod history;
mod home;
mod local;
mod make;
mod others;
mod owner;
mod pause;
mod rest;
mod safe;
mod screen;
mod stalls;
mod start;
mod talk;

use crate::row::Table;
use crate::stage::Stage;
use anyhow::Result;

/// One bench. `run` adds its rows as it gets them; after `Err` the rows so far are valid.
pub struct Bench {
    pub name: &'static str,
    pub run: fn(&Stage, &mut Table) -> Result<()>,
    /// Whether it belongs to the group of moves.
    pub engine: bool,
    /// Whether it is run when no bench is named.
    pub everyday: bool,
}

type Run = fn(&Stage, &mut Table) -> Result<()>;

const fn everyday(name: &'static str, run: Run, engine: bool) -> Bench {
    Bench {
        name,
        run,
        engine,
        everyday: true,
    }
}

/// What people wait for.
const fn of_screens(name: &'static str, run: Run) -> Bench {
    of_farms(name, run)
}

const fn of_farms(name: &'static str, run: Run) -> Bench {
    Bench {
        name,
        run,
        engine: false,
        everyday: false,
    }
}

const fn of_moves(name: &'static str, run: Run) -> Bench {
    Bench {
        name,
        run,
        engine: true,
        everyday: false,
    }
}

pub const BENCHES: [Bench; 18] = [
    everyday("home", home::run, false),
    everyday("start", start::run, false),
    everyday("birth", birth::run, false),
    everyday("local", local::run, false),
    everyday("call", call::run, false),
    everyday("bulk", bulk::run, true),
    of_screens("screen", screen::run),
    of_screens("history", history::run),
    of_farms("rest", rest::run),
    of_farms("owner", owner::run),
    of_farms("make", make::run),
    of_farms("talk", talk::run),
    of_farms("safe", safe::run),
    of_moves("first", first::run),
    of_moves("bytes", bytes::run),
    of_moves("beside", beside::run),
    of_moves("stalls", stalls::run),
    of_moves("pause", pause::run),
];

/// Bars that are measured by other commands.
pub const ELSEWHERE: &str = "\
moves of every size: cargo xtask bench engine
top with 1,000 nodes, a history of a million jobs: cargo xtask bench screen history
an idle farm, a returning owner: cargo xtask bench rest owner
connections between moved processes: cargo xtask bench talk
checkpoints, and a node that is lost: cargo xtask bench safe
makespans of scenarios: armento lab play scenarios/paper-equal.toml --policy armento,static,parallel
conform: all guests, four modes, three times, all equal to native: armento conform --strict --runs 3
demo: farm time / single-node time <= 0.30: armento demo --json demo.json";
