//! What the jobs of a home have used: by user, job, node and day, in one SQLite file of bounded size.
//!
//! ```text
//! daemon ──► Jobs (in memory, bounded) ──► a thread, now and then ──► Store ──► history.db
//! armento history ──► daemon ──► read() on a connection of its own ───────────────┘
//! ```
//!
//! Keepers report totals, never differences ([`JobUse`](armento_client::api::JobUse)). What is new in them since the last
//! write counts for the day of the write, so a report that was dropped, a write that failed, or a daemon that was away
//! loses nothing but the day.
//!
//! This crate never decides, and no caller waits for the disk. Start at `recorder.rs`; `schema.rs` has the tables.

mod day;
mod error;
mod jobs;
mod merge;
mod query;
mod recorder;
mod schema;
mod store;

pub use error::HistoryError;
/// The zone in which days begin.
pub use jiff::tz::TimeZone;
pub use jobs::{Began, Job, Jobs, Uses};
pub use merge::merge_answers;
pub use query::read;
pub use recorder::{Recorder, Settings};
pub use store::Store;
