//! What all threads of a host share, the tracer thread among them.
//!
//! Lock order: `threads` before `GuestThread::call`, accounts of CPU time; the link home last. No lock is held while
//! waiting for the tracer thread.

use super::drain::Drain;
use super::home_link::HomeLink;
use super::meetings::Meetings;
use super::names::Names;
use super::outgoing_moves::OutgoingMoves;
use super::sockets::Sockets;
use super::threads::ThreadTable;
use crate::files::FileTable;
use crate::inject::AllowedCalls;
use crate::shared_mounts::SharedMounts;
use crate::sync::{Pause, lock};
use armento_client::api::HostStart;
use armento_migrate::image::objects::{Object, ObjectId};
use armento_model::HomePid;
use armento_tracee::notify::Listener;
use armento_tracee::sys as tsys;
use armento_wire::talk::ToHome;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

pub struct Shared {
    pub start: HostStart,
    /// How far home's CLOCK_MONOTONIC is ahead of this node's, nanoseconds.
    pub clock_ahead: i64,
    /// The identity shown to other hosts: that of `start`, renewed.
    pub identity: Mutex<armento_link::Identity>,
    pub listener: Listener,
    pub threads: ThreadTable,
    /// Calls that the tracer thread makes inside guests just now.
    pub injected: Arc<AllowedCalls>,
    pub home: Arc<HomeLink>,
    /// Directories of home.
    pub names: Mutex<Names>,
    /// File systems that this node and others mount.
    pub shared_mounts: SharedMounts,
    /// Connections that go directly to other hosts.
    pub sockets: Sockets,
    pub files: Arc<FileTable>,
    /// Forks under way, of guests that are not there yet.
    pub forking: Arc<AtomicU64>,
    /// Files of memory that stand for what processes of the tree share.
    pub objects: Mutex<HashMap<ObjectId, Object>>,
    pub meetings: Meetings,
    pub outgoing: OutgoingMoves,
    pub drain: Drain,
    /// Held while arguments and environments are sent home.
    pub sending_cmdlines: Mutex<()>,
    /// Bodies' end of descriptor passing.
    pub pass: OwnedFd,
    /// How bodies get a userfaultfd that serves their kernel's faults, too.
    pub userfault: UserfaultAccess,
    /// Readable when a guest has come or gone: the daemon is notified soon.
    pub changed: OwnedFd,
    /// … and so is home.
    pub report_pause: Pause,
}

pub enum UserfaultAccess {
    /// From this device, which the user that started the host may open.
    Device(File),
    /// From the call itself: vm.unprivileged_userfaultfd is 1.
    Call,
    /// Not at all: no post-copy.
    No,
}

impl Shared {
    /// A guest has come or gone.
    pub fn has_changed(&self) {
        tsys::poke(self.changed.as_raw_fd());
        self.report_pause.end();
    }

    /// Home's CLOCK_MONOTONIC, nanoseconds.
    pub fn home_now(&self) -> u64 {
        let here = tsys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default();
        here.saturating_add_signed(self.clock_ahead)
    }

    /// Does a guest of this tree have shared memory here that has a name in the file system?
    pub fn has_named_objects(&self) -> bool {
        lock(&self.objects).values().any(|o| o.lasts)
    }

    /// Asks home to fetch a process while this node sends its guests away.
    pub fn send_home(&self, pid: HomePid) {
        let Some((stay, why)) = self.drain.why() else {
            return;
        };
        self.home.send(&ToHome::ComeHome {
            pid,
            tid: pid.leader(),
            stay,
            why,
            about: None,
        });
    }
}
