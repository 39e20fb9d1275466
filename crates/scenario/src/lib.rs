//! A farm, its work and its troubles as a TOML file, for the simulator and the laboratory alike.
//!
//! Start at [`Scenario::parse`]; [`Scenario::plan`] makes of it what happens when, [`Plan::limit_s`] says what no
//! scheduler beats.

mod chance;
mod check;
mod file;
mod limit;
mod plan;
mod published;
mod row;
mod table;

pub use file::Scenario;
pub use limit::{levelled, limit};
pub use plan::{Background, Event, Job, Node, Plan, What};
pub use published::Value as PublishedValue;
pub use row::{Played, Row};
pub use table::Table;
