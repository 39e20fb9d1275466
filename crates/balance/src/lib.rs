//! Decides where processes run; never carries it out.
//!
//! All inputs and outputs are values: no clock, no randomness, no I/O. A home decides for its own processes only,
//! wherever they are; the target may refuse ([`admit`]).
//!
//! Start at [`decide`] (which processes move) and [`place`] (where a fresh program starts). [`Ledger`] keeps the books
//! from which a daemon or the simulator makes the [`View`] that both functions read.

mod account;
mod admit;
mod cost;
mod decide;
mod drain;
mod durations;
mod eligible;
mod file_use;
mod follow_files;
mod groups;
mod habits;
mod ledger;
mod load_history;
mod load_totals;
mod loss;
mod meter;
mod place;
mod plan;
mod policy;
mod ranks;
mod rotation;
mod view;
mod why;
mod windowed_min;
mod work_conserving;

pub use account::{Guest, Seen};
pub use admit::{Need, admit};
pub use decide::decide;
pub use drain::{Drained, drain};
pub use file_use::{Counts, FileUse, Traffic};
pub use ledger::Ledger;
pub use place::{Fresh, place};
pub use policy::{Kind, Policy, UnknownPolicy};
pub use view::{Cause, DEMAND_FULL, Flight, Grounds, Move, Node, Proc, View};
pub use why::{Away, away, barred, common, why};
