//! The lease holder of a user: a process with the capability CAP_LEASE that takes leases on files for that user's keepers.
//!
//! From: `control/requests.rs`. Next: `cli/src/lease_holder.rs`, the process itself. It is started when a keeper needs it, ends
//! by itself some seconds after the last keeper, and outlives the daemon: the next one finds it by its socket.

use crate::error::{Result, refusal};
use crate::hosts::open_log;
use crate::state::Node;
use crate::sys;
use armento_client::api::{Answer, Refusal};
use armento_leases::socket;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub const VERB: &str = "lease-holder";

/// One is started at a time.
static STARTING: Mutex<()> = Mutex::new(());

/// The socket of that user's lease holder, which is started if there is none. Blocks for milliseconds.
pub fn find(node: &Node, uid: u32) -> Result<Answer> {
    if sys::euid() != 0 {
        let what = "the daemon is not root's: leases are taken on the user's own files only";
        return Err(refusal("not-permitted", what, "run the daemon as root"));
    }
    let mut path = node.config.socket_path().into_os_string();
    path.push(format!(".leases-{uid}"));
    let path = PathBuf::from(path);
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if socket::reach(&path).is_err() {
        start(node, uid, &path).map_err(|e| failed(uid, &e))?;
    }
    Ok(Answer::LeaseHolder { socket: path })
}

fn failed(uid: u32, e: &io::Error) -> Refusal {
    tracing::warn!("no lease holder for user {uid}: {e}");
    let what = format!("the lease holder does not start: {e}");
    refusal("failed", what, "see the daemon's log")
}

fn start(node: &Node, uid: u32, path: &Path) -> io::Result<()> {
    let listener: OwnedFd = socket::listen(path, uid)?;
    let log = match open_log(&node.state.path().join(format!("{VERB}-{uid}.log"))) {
        Ok(log) => Stdio::from(log),
        Err(_) => Stdio::inherit(),
    };
    let mut command = Command::new(&node.host_program);
    command
        // For `ps`; its file may be another by now.
        .arg0(std::env::args_os().next().unwrap_or_default())
        .arg(VERB)
        .stdin(listener)
        .stdout(Stdio::null())
        .stderr(log)
        .current_dir("/")
        // The service manager listens to the daemon only.
        .env_remove("NOTIFY_SOCKET")
        // Signals to the daemon's group do not reach it.
        .process_group(0);
    let mut child = sys::as_others(|| command.spawn())?;
    thread::Builder::new()
        .name(VERB.into())
        .spawn(move || drop(child.wait()))
        .map(drop)
}
