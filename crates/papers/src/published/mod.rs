//! The published side: every value of `papers/`, read and never retyped.
//!
//! The files are part of the program. A damaged one is an error that names file and line; start at [`table`] and
//! [`values`].

mod errata;
mod named;
#[cfg(test)]
mod recomputed;
mod tables;

pub use errata::{errata, mark};
pub use named::values;
pub use tables::{Row, table};

/// PAPER(P, test bed): the 24 conversions of each run.
pub const JOBS: usize = 24;
/// PAPER(P, test bed): 89,782,940 bytes of WAV and 16,287,870 of MP3.
pub const BYTES_PER_JOB: f64 = 106_070_810.0;
/// PAPER(P, stereo and mono, case 3): the switch.
pub const LINK_BIT_S: f64 = 100e6;
/// PAPER(P, test bed): Pentium II.
pub const MHZ: f64 = 300.0;
/// PAPER(M, test 1): length of a program, seconds, and number of nodes.
pub const TEST1_S: f64 = 300.0;
pub const TEST1_NODES: usize = 16;
