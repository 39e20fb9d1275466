//! What this machine's network is: `ip -d -j`, sysfs, kernel settings. Reads only. Start at [`observe`]; [`parse`] is pure.

mod parse;
mod read;

pub use parse::{BondSeen, Counters, MemberSeen, Observed, RouteSeen, Seen, parse};
pub use read::{ObserveError, observe, run_ip};
