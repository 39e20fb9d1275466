//! The state directory: keys, the farm, its members, and what an earlier boot left there.
//!
//! It gives meaning to none of it but the farm and its members. Start at `dir.rs`, which lists the files.

mod dir;
mod earlier_boot;
mod farm;

pub use dir::{Lock, StateDir};
pub use earlier_boot::forget_earlier;
pub use farm::{Farm, Member};
