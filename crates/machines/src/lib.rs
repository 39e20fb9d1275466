//! Debian machines in QEMU, for tests: systemd, control groups of version 2, Yama 1, chrony, users alice and bob.
//!
//! ```text
//!   test process ── pipe ──► cat, process 1 of a pid and network namespace; all below ends with the pipe
//!                             ├─ bridge `farm` ═ n1, n2, …   10.9.9.N, the links of the farm
//!                             ├─ bridge `test` ═ n1, n2, …   link-local IPv6 only, for ssh
//!                             └─ qemu n1, qemu n2, …         disk: an overlay of the image
//! ```
//!
//! The image is built once from Debian's packages by `image/build.sh` and kept below the build directory. This crate
//! never changes the machine it runs on outside that directory and its own namespaces. Start at [`Site`], then
//! [`Machine`]; [`farm`] makes a farm of several; [`diskless`] has
//! machines that boot from the network; `armento-machines up` starts machines by hand.

pub mod diskless;
pub mod farm;
mod image;
mod machine;
mod site;

pub use image::{Image, Kind, Suite, missing};
pub use machine::{Kernel, Machine, Reply};
pub use site::Site;

/// What this machine lacks; a test prints it as `skipped: …`.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
