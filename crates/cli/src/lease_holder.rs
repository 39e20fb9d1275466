//! `armento lease-holder`: takes leases for the keepers of one user. Its standard input is the socket at which it listens.
//!
//! From: `noded/src/lease_holder.rs`. Next: `leases/src/holder.rs`. It stays root's, so that its user can neither stop nor trace it,
//! and gives up all rights of root but CAP_LEASE before it serves.

use crate::sys;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

pub const VERB: &str = "lease-holder";

/// Without a keeper for so long it ends; the next one has another started.
const IDLE: Duration = Duration::from_secs(10);

/// Returns the exit code. Before: this process has one thread.
pub fn main() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("armento {VERB}: {e}");
            crate::out::FAILED
        }
    }
}

fn serve() -> io::Result<()> {
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    sys::be_ordinary_to_oom();
    let only = CapabilitySet::LEASE;
    let sets = CapabilitySets {
        effective: only,
        permitted: only,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(|e| {
        io::Error::other(format!(
            "without CAP_LEASE there is nothing to do here: {e}"
        ))
    })?;
    armento_leases::serve(listener, IDLE)
}
