//! The benches, the longest last: what it has no time for is said.

mod birth;
mod bulk;
mod call;
mod home;
mod local;
mod pause;
mod start;

use crate::row::Row;
use crate::stage::Stage;
use anyhow::Result;

/// One bench. `run` adds its rows as it gets them; after `Err` those it has are good.
pub struct Bench {
    pub name: &'static str,
    pub run: fn(&Stage, &mut Vec<Row>) -> Result<()>,
}

pub const BENCHES: [Bench; 7] = [
    Bench {
        name: "home",
        run: home::run,
    },
    Bench {
        name: "start",
        run: start::run,
    },
    Bench {
        name: "birth",
        run: birth::run,
    },
    Bench {
        name: "local",
        run: local::run,
    },
    Bench {
        name: "call",
        run: call::run,
    },
    Bench {
        name: "bulk",
        run: bulk::run,
    },
    Bench {
        name: "pause",
        run: pause::run,
    },
];

/// The bars that need runs of their own.
pub const ELSEWHERE: &str = "\
conform: all guests, four modes, three times, all equal to native: armento conform --strict --runs 3
demo: farm time / single-node time <= 0.30: armento demo --json demo.json";
