//! The farm's network and its cables as one file: every node's settings follow from it, drift and faults are named.
//!
//! Rooms `inventory` to `diagnose` are pure: text and data in, text and data out. `file` replaces files whole, `observe` reads this machine, `probe` asks
//! its neighbours, `apply` changes it, with a way back; nothing else acts. Start at [`inventory::parse`], then
//! [`plan::plan`].

pub mod addr;
pub mod apply;
pub mod diagnose;
pub mod diff;
pub mod file;
pub mod import;
pub mod inventory;
pub mod observe;
pub mod plan;
pub mod probe;
pub mod render;
pub mod topology;
