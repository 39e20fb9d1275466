//! Clocks: the time of day here, and how far the clock of another node is from ours.
//!
//! It asks no other node; `work/clocks.rs` does. Start at `reading.rs`, which says when two clocks are too far apart.

mod offset;
mod reading;
mod time;

pub use offset::{Moments, Offset, measure, span};
pub use reading::{APART_MAX_NS, Known, Seen, clock_note};
pub use time::{realtime_ns, unix_ms, unix_now};
