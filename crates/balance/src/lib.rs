//! Who should run where: decisions, never actions.
//!
//! Everything comes in as values and goes out as values: no clock, no dice, no I/O. A home decides
//! for its own processes only, wherever they are now; the target may refuse ([`admit`]).
//!
//! Start at [`decide`] (who moves) and [`place`] (where a fresh program starts). [`Ledger`] keeps
//! the books from which a daemon or the simulator makes the [`View`] that both read.

mod account;
mod admit;
mod cost;
mod decide;
mod eligible;
mod ledger;
mod load_history;
mod load_totals;
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
pub use ledger::Ledger;
pub use place::{Fresh, place};
pub use policy::{Kind, Policy, UnknownPolicy};
pub use view::{Cause, DEMAND_FULL, Flight, Grounds, Move, Node, Proc, View};
pub use why::{barred, common, why};
