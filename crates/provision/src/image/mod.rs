//! Images: roots of nodes with kernel and initramfs, in generations. A generation is complete or is not there; which one
//! nodes boot is one symbolic link, replaced at once.
//!
//! ```text
//! images/NAME/current → 3              nodes boot this one
//! images/NAME/previous → 2             `back` returns to it
//! images/NAME/3/root/                  the root: served live; edits show on all nodes
//! images/NAME/3/{vmlinuz,initrd,root.erofs,manifest.json}
//! ```
//! It starts no machine and never changes a generation that is complete. Start at [`Store`]; [`Draft`] becomes a
//! generation.

mod build;
mod copies;
mod diff;
mod draft;
mod elf;
mod farm_part;
mod import;
mod manifest;
mod oci;
mod run;
mod store;

pub use build::{BuildOptions, build};
pub use copies::{Choice, Lead};
pub use diff::{Change, diff, edited};
pub use draft::{Draft, Progressed};
pub use import::{ImportOptions, import};
pub use manifest::{Entry, Kind, Manifest, scan, sha256};
pub use store::{Generation, Listed, Store, Wanted, check_name};
