//! Keepers in session: what they hold, the orders they were given, and what was decided for their processes.
//!
//! Tables only: it locks nothing of the node and orders nothing by itself. Start at `table.rs`.

mod consents;
mod decisions;
mod keeper;
mod launch_queue;
mod rejoin;
mod reports;
mod table;
mod trace_rate;

pub use consents::{Consent, Consents};
pub use decisions::{Decided, Which};
pub use keeper::{Keeper, KeeperProgram, needs, program_name};
pub use launch_queue::LaunchQueue;
pub use rejoin::Rejoin;
pub use table::KeeperTable;
pub use trace_rate::{PER_SECOND_MAX, TraceRate};
