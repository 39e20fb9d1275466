//! `armento top`: the farm on one screen, what mosmon and mtop showed, with why and with keys that change it.
//!
//! ```text
//!  keys ─┐                                 ┌─► draw(state) ─► terminal
//!  ticks ─┼─► events ─► State::update ─► state
//!  watch ─┘  (bounded)       └─► Action ─► ask (a thread a question, eight at most) ─► events
//! ```
//! `state::State` and `draw::draw` are pure: time and what the daemon told come in as events. Whoever asks the daemon does
//! so in threads of its own (`watch.rs`, `ask.rs`), so a daemon that is slow or gone delays no key.
//!
//! This crate never decides who runs where, and asks nothing that a command could not ask. Start at `state.rs`.

mod ask;
mod columns;
mod draw;
mod keys;
mod layout;
mod list;
mod look;
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
mod trouble;
mod update;
mod watch;

pub use look::Look;
pub use once::once;
pub use run::{Failed, Options, run};
pub use terminal::terminal_size;
