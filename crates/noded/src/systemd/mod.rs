//! What is said to systemd, and asked of it: notifications, and a scope for guests.
//!
//! Without systemd all of it does nothing. Start at `scope.rs`: guests outlive the daemon's service.

mod notify;
mod scope;

pub use notify::{ready, reloading, stopping};
pub use scope::{again as scope_again, base as scope_base, start as start_scope};
