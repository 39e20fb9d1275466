//! How a node becomes a member of a farm, and how it stops being one.
//!
//! It moves no process: members that leave or are removed send orders, and wait. Start at `enrol.rs` (the joiner's side)
//! and `admission.rs` (the member's); `revoke.rs` applies what the farm says of removed nodes.

mod admission;
mod boot_server;
mod enrol;
mod leave;
mod order_drain;
mod order_upgrade;
mod place;
mod remove;
mod revoke;
mod tokens;

pub use admission::admit_node;
pub use boot_server::boot_identity;
pub use enrol::{
    Enrolled, InitOptions, JoinOptions, Planned, TOKEN_TTL, TOKEN_USES, init, invitations, join,
    new_token, plan_init, plan_join, plan_token, withdraw,
};
pub use leave::{
    expel_order, forget_kept, leave_farm, leave_without_daemon, plan_leave, takes_the_key,
};
pub use order_drain::drain_node;
pub use order_upgrade::{restart_this, upgrade_node, versions_at};
pub use place::listen_refused;
pub use remove::{remaining, remove_node, rotate_secret};
pub use revoke::{apply_statement, ask_for_statement};
pub use tokens::Invitation;
