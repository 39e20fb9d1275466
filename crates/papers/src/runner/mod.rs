//! Runs experiments and keeps what they measured.
//!
//! | what | file |
//! |---|---|
//! | what an experiment is | `experiment.rs` |
//! | its runs, one after the other, with the time left | `run.rs` |
//! | what was measured, as a file that a later run goes on with | `results.rs` |
//! | Ctrl-C: labs are taken down before the prompt is back | `stop.rs` |
//!
//! It never compares with published values, and never changes the machine outside labs and the folder of results.

mod experiment;
mod results;
mod run;
mod setting;
mod stop;

pub use experiment::{Experiment, Found, Measured, Run, Tool, always, as_is, nothing};
pub use results::{Build, Results, Sample, folder};
pub use run::{Order, begin};
pub use setting::{On, Setting};
pub use stop::{INTERRUPTED, arm};
