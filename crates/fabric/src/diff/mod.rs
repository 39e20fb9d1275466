//! Wanted against found: what differs, and the commands that would mend it. Pure. Start at [`diff`] and [`commands`].

mod change;
mod drift;

pub use change::{commands, restore};
pub use drift::{Drift, diff};
