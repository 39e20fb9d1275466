//! What is checked while a node joins, so that a join that cannot work is refused and leaves nothing behind.
//!
//! It admits no node; `membership/` does. Start at `dial.rs`, the connection to the member; `reach.rs` checks whether the
//! member reaches the joiner, `machine_id.rs` tells whether its machine is a member already.

mod dial;
mod listener;
mod machine_id;
mod proof;
mod reach;

pub use dial::dial_member;
pub use listener::JoinListener;
pub use machine_id::machine_hash;
pub use reach::{Unreached, probe};
