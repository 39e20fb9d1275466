//! `armento top`: the farm on one screen, as mosmon and mtop showed, with the reason for each place and with keys that
//! change it.
//!
//! ```text
//!  keys ─┐                                 ┌─► draw(state) ─► terminal
//!  ticks ─┼─► events ─► State::update ─► state
//!  watch ─┘  (bounded)       └─► Action ─► ask (a thread a request, eight at most) ─► events
//! ```
//!
//! `state::State` and `draw::draw` are pure: time and the daemon's answers come in as events. Requests to the daemon
//! have threads of their own (`watch.rs`, `ask.rs`), so a daemon that is slow or gone delays no key.
//!
//! This crate never decides where a process runs, and makes no request that a command could not make. Start at
//! `state.rs`.

mod ask;
mod columns;
mod draw;
mod forest;
mod keys;
mod layout;
mod list;
mod look;
mod measure;
mod moves;
mod nodes;
mod once;
mod panel;
mod popup;
mod procs;
mod run;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod trouble;
mod update;
mod watch;

pub use forest::forest;
pub use look::Look;
pub use measure::{Redraw, redraws};
pub use once::once;
pub use run::{Failed, Options, run};
pub use terminal::terminal_size;
pub use theme::Theme;
