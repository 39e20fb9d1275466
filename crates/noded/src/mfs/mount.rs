//! The mount of this node: whether it is to be there, and the process that holds it.
//!
//! ```text
//! wanted, no process ──start──► mounted ──switched off, leaving──► SIGTERM: it unmounts and ends
//!        ▲                        │ it ended by itself
//!        └── pause, longer ◄──────┘
//! ```
//! One task does all of it in turn. The process outlives the daemon, with files open on the mount; the next daemon finds it
//! by its record. It has the mount namespace of process 1 and not the daemon's: a service has one of its own
//! (`ProtectSystem=`, `PrivateTmp=`), in which a mount would be seen by the daemon alone.
//!
//! Next: `cli/src/mfs/mount.rs`.

use super::child;
use super::serve::{look, move_apart};
use crate::file_servers::{FileServers, MOUNT_FILE, MountRecord, dir};
use crate::hosts::Cgroups;
use crate::state::{Node, kill_server};
use crate::state_dir::StateDir;
use crate::sys;
use armento_client::api::MfsStart;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a failure, doubled each time up to the second: the cause (no /dev/fuse, a full directory) is a person's to mend.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// A process that unmounts: it gives files in use a moment, then leaves them with errors. Longer than that.
const ENDED: Duration = Duration::from_secs(8);
const ENDED_LOOK: Duration = Duration::from_millis(10);
const STEM: &str = "mount";

/// The file of FUSE. KERNEL: fuse.ko, misc device 229; without the module the open fails.
const DEVICE: &str = "/dev/fuse";

/// Runs as long as the daemon does.
pub async fn supervise(node: Arc<Node>) {
    let mut tries = Tries::default();
    loop {
        let looking = node.clone();
        let looked = tokio::task::spawn_blocking(move || {
            look(&looking);
            settle(&looking, &mut tries);
            tries
        });
        tries = match looked.await {
            Ok(tries) => tries,
            Err(e) => {
                tracing::error!("MFS is looked after no more: {e}");
                return;
            }
        };
        let sleep = async {
            match rests(&node) {
                true => std::future::pending().await,
                false => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        tokio::select! {
            () = node.mfs.changed.notified() => tries = Tries::default(),
            () = sleep => {}
        }
    }
}

/// It is off, and nothing of it is left: then there is nothing to look at.
fn rests(node: &Node) -> bool {
    let on = node.lock().switches.mfs();
    !on && node.mfs.mount().record.is_none() && node.mfs.servers().count() == 0
}

/// When a failed start may be tried again.
#[derive(Default)]
struct Tries {
    next: Option<Instant>,
    pause: Duration,
    /// When it was mounted last.
    since: Option<Instant>,
}

impl Tries {
    fn failed(&mut self) {
        if self.since.take().is_some_and(|at| at.elapsed() > AGAIN_MAX) {
            self.pause = Duration::ZERO;
        }
        self.pause = (self.pause * 2).clamp(AGAIN, AGAIN_MAX);
        self.next = Some(Instant::now() + self.pause);
    }

    /// What ends soon after is not started again at once.
    fn mounted(&mut self) {
        self.next = None;
        self.since = Some(Instant::now());
    }

    fn may(&self) -> bool {
        self.next.is_none_or(|at| Instant::now() >= at)
    }
}

/// Has a mount process where there is to be one, and none otherwise.
fn settle(node: &Arc<Node>, tries: &mut Tries) {
    let wanted = {
        let core = node.lock();
        core.switches.mfs() && !core.leaving
    };
    let point = node.settings().mfs.point().to_owned();
    let record = node.mfs.mount().record.clone();
    let lives = record.as_ref().is_some_and(|r| r.process.lives());
    match record {
        Some(r) if lives && wanted && r.point == point => return,
        Some(r) if lives => unmount(node, &r),
        Some(r) => {
            ended(node, &r);
            tries.failed();
        }
        None => {}
    }
    if wanted && tries.may() {
        match mount(node, &point) {
            Ok(()) => tries.mounted(),
            Err(why) => {
                let mut mount = node.mfs.mount();
                if mount.why != why {
                    tracing::warn!("MFS is not mounted at {}: {why}", point.display());
                }
                mount.why = why;
                tries.failed();
            }
        }
    } else if !wanted {
        node.mfs.mount().why.clear();
    }
}

fn mount(node: &Arc<Node>, point: &Path) -> Result<(), String> {
    if sys::euid() != 0 {
        return Err("the daemon is not root's: only root mounts for all users".into());
    }
    if !Path::new(DEVICE).exists() {
        return Err(format!("{DEVICE} is not there: modprobe fuse"));
    }
    let order = start_line(node, false);
    let shown = point.to_str().ok_or("its path is no UTF-8")?;
    let fresh = child::start(node, "mfs-mount", &[shown], STEM)?;
    let process = fresh.process;
    let mut record = MountRecord {
        process,
        point: point.to_owned(),
        up: false,
    };
    // Before it reads its line, without which it ends: should this daemon end now, the next one knows of it. And its first
    // question may come before its answer.
    note(node, &record);
    move_apart(STEM, process);
    let up = fresh.instruct(&order);
    match up {
        Ok((mut child, _)) => {
            record.up = true;
            note(node, &record);
            node.mfs.mount().why.clear();
            tracing::info!("MFS is mounted at {shown}");
            thread::spawn(move || {
                let status = child.wait();
                tracing::info!("the mount process of MFS ended: {status:?}");
            });
            Ok(())
        }
        Err(why) => {
            forget(node, &record);
            Err(why)
        }
    }
}

fn note(node: &Node, record: &MountRecord) {
    if let Err(e) = node.state.note_json(MOUNT_FILE, record) {
        tracing::warn!("{e}: a restarted daemon will not know the mount");
    }
    node.mfs.mount().record = Some(record.clone());
}

fn start_line(node: &Node, clear: bool) -> MfsStart {
    MfsStart {
        node: node.farm.node.clone(),
        clear,
        deadline_ms: node.settings().freeze_ms,
    }
}

/// It has ended by itself, or was killed: programs get errors from the mount point until it is taken away.
fn ended(node: &Arc<Node>, record: &MountRecord) {
    forget(node, record);
    clear(node, &record.point);
    node.mfs.mount().why = "its process ended; see mfs/mount.log in the state directory".into();
}

/// Takes away a mount without a process.
fn clear(node: &Node, point: &Path) {
    let Some(shown) = point.to_str() else { return };
    let cleared = child::start(node, "mfs-mount", &[shown], STEM)
        .and_then(|fresh| fresh.instruct(&start_line(node, true)));
    match cleared {
        Ok((mut child, _)) => drop(child.wait()),
        Err(why) => tracing::warn!("what was mounted at {shown} may still be there: {why}"),
    }
}

fn unmount(node: &Arc<Node>, record: &MountRecord) {
    if !has_ended(record) {
        clear(node, &record.point);
    }
    tracing::info!("MFS is unmounted from {}", record.point.display());
    forget(node, record);
}

/// Asks the process to unmount and end. False: it had to be killed, and what it mounted is there still.
fn has_ended(record: &MountRecord) -> bool {
    if record.process.lives() {
        sys::terminate(record.process.pid);
    }
    let until = Instant::now() + ENDED;
    while record.process.lives() && Instant::now() < until {
        thread::sleep(ENDED_LOOK);
    }
    if record.process.lives() {
        sys::kill(record.process.pid);
        return false;
    }
    true
}

fn forget(node: &Node, record: &MountRecord) {
    let mut mount = node.mfs.mount();
    if mount.record.as_ref().map(|r| r.process) == Some(record.process) {
        mount.record = None;
        let _ = std::fs::remove_file(node.state.path().join(MOUNT_FILE));
    }
    drop(mount);
    let pid = record.process.pid;
    // Its last thread may end after it: this waits.
    thread::spawn(move || Cgroups::apart(&format!("mfs-{STEM}"), pid).remove());
}

/// This node leaves the farm: unmounts, ends all file servers, removes what is written down of them. Blocks.
pub fn end(node: &Arc<Node>) {
    let record = node.mfs.mount().record.clone();
    if let Some(record) = record {
        unmount(node, &record);
    }
    node.mfs.servers().all().for_each(kill_server);
    let _ = std::fs::remove_dir_all(dir(&node.state));
}

/// This node leaves the farm while no daemon runs: as [`end`]. Blocks. Before: we hold the state directory's lock.
pub fn end_without_daemon(state: &StateDir) {
    let record = state.read_json::<MountRecord>(MOUNT_FILE).ok().flatten();
    if let Some(r) = record
        && !has_ended(&r)
    {
        tracing::warn!(
            "what was mounted at {} is there still: umount it",
            r.point.display()
        );
    }
    let (servers, unfinished) = FileServers::recover(state);
    servers.all().chain(&unfinished).for_each(kill_server);
    let _ = std::fs::remove_dir_all(dir(state));
}
