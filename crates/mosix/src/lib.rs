//! The commands of openMosix by their old names: `mosrun`, `migrate`, `mosctl`, `mosmon`, `mps`, `setpe`, …
//!
//! ```text
//! argv[0], or `armento mosix NAME` ─► main ─► parse ─► Deed ─► perform ─► the daemon's control socket
//!                                              │ table: what each option becomes     └► exec: armento run, top, migrate
//!                                              └► one line why it is refused
//! ```
//! It decides nothing and starts no thread: what it cannot ask of the daemon, other verbs of `armento` do, in this
//! process's place. Start at `table/mod.rs`, then `parse/mod.rs`.

mod failed;
mod farm;
pub mod hpc;
mod pages;
mod parse;
mod perform;
mod show;
mod sys;
mod table;
mod written;

pub use failed::Failed;
pub use farm::{Farm, Member, ids};
pub use pages::{list, list_json, man, page};
pub use perform::{is_name, main};
pub use table::{COMMANDS, Command};
pub use written::old_command;
