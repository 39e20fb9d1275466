//! The programs that are run and moved: C sources, real programs, terminal scripts, test suites, the user's own
//! scripts.
//!
//! Start at [`select`] and [`select_units`]. Data only: it runs nothing but compilers and the preparation of suites.

mod catalog;
mod compile;
mod editors;
mod fetch;
mod guest;
mod programs;
mod real;
mod sources;
mod suites;
mod terminal;

pub(crate) use catalog::{find, select};
pub(crate) use compile::compiled;
pub(crate) use fetch::{bounded, folder};
pub(crate) use guest::{Guest, How, Shows, Suite};
pub(crate) use suites::select as select_units;
pub(crate) use terminal::Step;
