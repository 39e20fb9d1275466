//! Whether this node can keep guests apart from itself, and with which privileges the host runs.
//!
//! The namespaces themselves are made in `sys.rs`. Start at `namespaces.rs`.

mod namespaces;
mod privileges;

pub use namespaces::{Forbidden, probe, probe_as, setting};
pub use privileges::Privileges;
