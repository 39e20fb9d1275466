//! Whether this node can keep guests apart from itself, and with which privileges the host runs.
//!
//! It knows no guest and no home. Start at `namespaces.rs`, then `sys.rs`, where the guard isolates itself and its
//! children.

mod namespaces;
mod privileges;
mod sys;

pub use namespaces::{Forbidden, probe, probe_as, setting};
pub use privileges::Privileges;
pub use sys::{Guests, start_guests};
