//! The papers, re-run: their published values, experiments that repeat them on a farm of this machine or in virtual
//! time, and a report that shows both beside each other.
//!
//! ```text
//!   papers/*.csv ─► published ─┐
//!                              ├─► chapter (tables, pictures) ─► report (text, Markdown, HTML)
//!   experiments ─► runner ─► results/ID.json ─► relations: pass or fail, and by how much
//! ```
//!
//! It never corrects a published value, never shows a number that was not measured or computed, and changes nothing
//! outside the labs that it raises and the folder of results. Start at [`run`], then `experiments/mod.rs`, the list of
//! experiments, one file each; `demo` is the first of them as a command of its own. [`exchange::measure`] and
//! [`copy::measure`] need no paper and no lab: they run on any [`hosts::Hosts`].

pub mod bench;
mod catalogue;
mod chapter;
mod cmd;
pub mod copy;
pub mod demo;
mod encoders;
pub mod exchange;
mod experiments;
mod figures;
mod formula;
pub mod hosts;
mod plot;
mod published;
mod relations;
mod report;
mod runner;
mod tools;

pub use catalogue::page;
pub use cmd::{Cmd, run};
