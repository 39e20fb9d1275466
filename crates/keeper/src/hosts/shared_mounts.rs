//! Asks a host what it sees below the mounts that this node shares.
//!
//! From: `connect.rs`, before a process goes there; and when mounts have changed. Next: `keeper/src/shared_mounts`,
//! `host/src/shared_mounts`.

use crate::deputy::HostLink;
use crate::shared_mounts::Mounts;
use crate::state::Keep;
use armento_client::api::Report;
use armento_tracee::spawn;
use armento_wire::talk::ToHost;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a move waits for the proof: two looks at a file system and a round trip. A later answer counts all the same.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a host may take: its opener has two seconds.
const ANSWER_MAX: Duration = Duration::from_secs(5);

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Finds out which shared mounts are the same at a host, and waits a little for it.
pub fn prove_mounts(keep: &Arc<Keep>, link: &Arc<HostLink>) {
    if link.mounts.declared().is_empty() {
        return;
    }
    link.mounts.begin();
    let (done, wait) = channel();
    let (keep, link) = (keep.clone(), link.clone());
    // A file system that hangs holds no move.
    spawn::soon("prove", move || {
        prove(&keep, &link);
        let _ = done.send(());
    });
    let _ = wait.recv_timeout(WAIT_MAX);
}

fn prove(keep: &Keep, link: &HostLink) {
    let all = link.mounts.declared().iter().enumerate();
    let verdicts = all.map(|(n, m)| Mounts::verdict(m, one(link, n)));
    let verdicts = verdicts.collect();
    keep.daemon.report(Report::Mounts {
        node: link.node.clone(),
        verdicts,
    });
}

fn one(link: &HostLink, n: usize) -> Result<(), String> {
    let m = &link.mounts.declared()[n];
    let (root, proof) = link.mounts.write(m)?;
    let seq = NEXT.fetch_add(1, Ordering::Relaxed);
    let answer = link.mounts.expect(seq);
    let mount = m.path.as_os_str().as_bytes().to_vec();
    link.send(&ToHost::ProveMount {
        seq,
        mount: mount.clone(),
        name: proof.name.clone(),
    });
    let late = |_| Err("it does not answer".to_owned());
    let seen = answer.recv_timeout(ANSWER_MAX).unwrap_or_else(late);
    link.mounts.forget_question(seq);
    let result = link.mounts.conclude(n, (root, proof), &link.node, &seen);
    if let Ok(seen) = seen {
        // Where it is another file system we could not remove it.
        let name = seen.written.name;
        link.send(&ToHost::MountProved { mount, name });
    }
    result
}

/// Mounts of this node have changed: what is known of them is looked at again. In the tracer thread.
pub fn watch_mounts(keep: &Arc<Keep>) {
    for link in keep.hosts.all() {
        if link.mounts.is_stale() {
            link.mounts.begin();
            let keep = keep.clone();
            spawn::soon("prove", move || prove(&keep, &link));
        }
    }
}
