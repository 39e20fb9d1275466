//! What a run shows that the native one does not, and the report of all.
//!
//! It never decides what is right: native is. Start at [`differences`].

mod difference;
mod known_gaps;
mod outcomes;
mod report;
mod screen;
mod verdicts;

pub(crate) use known_gaps::known_gap;
pub(crate) use outcomes::{differences, native_faults, no_reference};
pub(crate) use report::{Report, Row, Run, Verdict};
