//! A farm, its work and its faults as a TOML file, for the simulator and the lab alike.
//!
//! Start at [`Scenario::parse`]; [`Scenario::plan`] makes a timed plan from it, [`Plan::limit_s`] is the lower bound of
//! any scheduler's makespan.

mod chance;
mod check;
mod copies;
mod file;
mod limit;
mod plan;
mod published;
mod row;
mod table;

pub use file::Scenario;
pub use limit::{levelled, limit};
pub use plan::{Background, Event, FileCopy, Job, Node, Plan, What};
pub use published::Value as PublishedValue;
pub use row::{Played, Row};
pub use table::Table;
