//! Changes this machine's network, with a way back: a snapshot, the change, and a timer that undoes it unless it is
//! confirmed. Start at [`begin`].
//!
//! ```text
//!   begin ── snapshot to disk ── timer started ── ip -batch ──► waiting
//!                                                      │ fails      │
//!                                                      ▼            ├─ confirm ► files written, directory gone
//!                                                    undo ◄─────────┴─ time is over
//!   reboot while waiting: the files on disk are the old ones; the next `begin` clears the directory
//! ```
//!
//! Who renames the directory `pending` first decides: confirm and undo never both happen.

mod change;
mod state;

pub use change::{Begun, Confirmed, Undone, begin, confirm, undo};
pub use state::{ApplyError, Pending, pending};

/// Where a change is recorded until it is confirmed.
pub const STATE_DIR: &str = "/var/lib/armento/fabric";
/// Seconds that a user has to confirm, unless they say otherwise.
pub const CONFIRM_S: u64 = 60;
/// Longest time: who has not confirmed within an hour has lost the machine.
pub const CONFIRM_S_MAX: u64 = 3600;
