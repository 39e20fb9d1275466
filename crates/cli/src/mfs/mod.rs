//! MFS on the command line: `armento mfs …`, and the two processes behind hidden verbs that the daemon starts.
//!
//! ```text
//! daemon ──► armento mfs-mount POINT   mount.rs: one a node, root's; asks the daemon for streams (farm.rs)
//!        ──► armento mfs-serve         serve.rs: one a user and mounting node, with the user's rights
//! ```
//! The file system is `crates/mfs`; these are what it needs to be a process.

mod farm;
mod mount;
pub mod outside;
mod serve;
mod stat;
mod verbs;

pub use mount::main as mount_main;
pub use serve::main as serve_main;
pub use verbs::{Cmd, run};

use armento_client::api::MfsUp;
use std::io::Write;

/// Verbs of the processes.
pub const MOUNT: &str = "mfs-mount";
pub const SERVE: &str = "mfs-serve";

/// Why a process of MFS cannot do its work.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Reads the line of instructions.
/// Before: nothing else has read standard input.
fn instructions<T: serde::de::DeserializeOwned>() -> Result<T, Failure> {
    Ok(armento_client::read_line(&mut std::io::stdin().lock())?)
}

/// The daemon's answer; the exit code.
fn answer(result: Result<u16, Failure>) -> i32 {
    let (up, code) = match result {
        Ok(port) => (MfsUp::Up { port }, 0),
        Err(e) => (MfsUp::Unable { why: e.to_string() }, crate::out::FAILED),
    };
    let line = armento_client::encode(&up).unwrap_or_default();
    let mut out = std::io::stdout();
    // A daemon that is gone has left its successor a record.
    let _ = out.write_all(&line).and_then(|()| out.flush());
    code
}
