//! `armento upgrade-install PATH SHA256`: puts the program on standard input at PATH; with `previous` instead of the hash, the
//! program of before.
//!
//! From: `noded/src/upgrade/receive.rs`. A service sees /usr read-only: this process leaves for the mount namespace of process 1.

use crate::mfs::outside;
use armento_noded::{FarmError, install_program, rollback_program};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

pub const VERB: &str = "upgrade-install";

/// Returns the exit code. Before: this process has one thread.
pub fn main(path: Option<&OsStr>, what: Option<&OsStr>) -> i32 {
    let (Some(path), Some(what)) = (path, what.and_then(OsStr::to_str)) else {
        eprintln!("armento {VERB}: the daemon calls it with a path and a hash");
        return crate::out::FAILED;
    };
    if let Err(e) = outside::enter() {
        eprintln!("the mount namespace of process 1 cannot be entered: {e}");
        return crate::out::FAILED;
    }
    match replace(Path::new(path), what) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("{e}");
            crate::out::FAILED
        }
    }
}

fn replace(path: &Path, what: &str) -> Result<(), FarmError> {
    match what {
        "previous" => rollback_program(path),
        sha256 => install_program(io::stdin().lock(), path, Some(sha256)),
    }
    .map(drop)
}
