//! Differences between a run and the native one, and the report of all.
//!
//! The native run is the reference by definition. Start at [`differences`].

mod difference;
mod known_gaps;
mod outcomes;
mod report;
mod screen;
mod verdicts;

pub(crate) use known_gaps::known_gap;
pub(crate) use outcomes::{differences, native_faults, no_reference};
pub(crate) use report::{Report, Row, Run, Verdict};
