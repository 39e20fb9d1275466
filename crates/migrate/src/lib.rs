//! The image of one process, and the phases of its move.
//!
//! Source and target mirror each other: [`target`] reads what [`source`] writes. [`image`] is divided by resource. This
//! crate does not decide which process moves, nor whether a side is home or host: that is up to `keeper` and `host`,
//! which own the threads. Start at [`image`].

pub mod failpoint;
pub mod files;
pub mod image;
pub mod pages;
pub mod permit;
pub mod phase;
pub mod postcopy;
pub mod source;
pub mod stop_threads;
pub mod stored;
pub mod target;

mod error;

pub use error::{Local, MigrateError, Result};
