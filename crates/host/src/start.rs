//! `armento host`: one line of JSON in, one out, then guests.
//!
//! From: `noded/src/work/start_host.rs`. Next: `host/src/calls/dispatch.rs`, when a guest has come.

use crate::files::{Cache, FileTable};
use crate::home::{self, FirstConnection};
use crate::inject::{self, AllowedCalls};
use crate::isolation::{self, Privileges};
use crate::shared_mounts::SharedMounts;
use crate::state::{
    Drain, GuestTable, Host, Meetings, OutgoingMoves, Shared, SiginfoCookies, Sockets, ThreadTable,
    UserfaultAccess,
};
use crate::sync::Pause;
use crate::{calls, sys, threads};
use armento_client::api::{HostSaid, HostStart, HostUp};
use armento_link::Listener;
use armento_model::Stay;
use armento_sense::Withheld;
use armento_tracee::region::Region;
use armento_tracee::{spawn, sys as tsys, tracer_thread, uffd};
use armento_wire::session;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A host that no keeper calls ends by itself; its daemon ends it sooner.
const UNCALLED_MIN: Duration = Duration::from_secs(30);
/// Copies of files take one of so many descriptors; the others are for streams, bodies and moves.
const FILES_SHARE: usize = 2;
/// The internal command `armento host`. Returns the exit code.
pub fn main() -> i32 {
    match run() {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("armento host: {e}");
            125
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn run() -> Result<(), Failure> {
    sys::is_called(c"armento");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let start: HostStart = serde_json::from_str(&line)?;
    // While this process has all its privileges, and one thread.
    let shared_mounts = SharedMounts::start(start.dfsa.clone());
    let cache = Cache::open(start.files.as_deref());
    let userfault = userfault_access();
    let withheld = Withheld::open();
    let privileges = Privileges::of(start.guest_uid, start.procs_max, isolation::setting)?;
    if let Err(no) = isolation::probe(&privileges) {
        let detail = format!("{} on {}; there: {}", no.what, start.node, no.remedy);
        let unable = HostSaid::Unable {
            stay: Stay::NoWalls,
            detail: detail.clone(),
        };
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&unable)?)?;
        return Err(detail.into());
    }
    let listening = Arc::new(Listener::bind(&start.listen, &start.identity)?);
    let up = HostUp {
        port: listening.port(),
        host: std::process::id() as i32,
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&up)?)?;
    // After the end of its daemon no keeper would learn of this host.
    sys::ends_after(Duration::from_millis(start.dead_ms).max(UNCALLED_MIN));
    // The namespaces are made while this process has one thread, so the first connection is awaited before others start.
    let FirstConnection {
        home,
        reader,
        early,
        clock_ahead,
    } = home::await_home(&listening, &start)?;
    sys::ends_after(Duration::ZERO);
    let region = Arc::new(Region::new(tsys::memfd("armento", 0)?, 1, 1)?);
    let guests =
        privileges.used(|| isolation::start_guests(&region.file, region.len(), clock_ahead))?;
    privileges.give_up()?;
    let (tracer, event_loop) = tracer_thread::new::<GuestTable>()?;
    let (zygote, listener) = inject::prepare(&guests, &region.code())?;
    tsys::frugal_malloc();
    armento_tracee::sched_slice::short();
    let files_max = tsys::all_descriptors() as usize / FILES_SHARE;
    spawn::spare()?;
    // Stacks of guests that are written to from here grow by our limit (see `state/stack_growth.rs`).
    let me = std::process::id() as i32;
    if let Some((_, hard)) = tsys::limit(me, libc::RLIMIT_STACK) {
        sys::set_limit(me, libc::RLIMIT_STACK, hard, hard);
    }
    let shared = Arc::new(Shared {
        identity: Mutex::new(start.identity.clone()),
        start,
        clock_ahead,
        listener,
        threads: ThreadTable::default(),
        injected: Arc::new(AllowedCalls::default()),
        home,
        names: Mutex::default(),
        shared_mounts,
        sockets: Sockets::default(),
        files: Arc::new(FileTable::new(files_max, cache)),
        forking: Arc::default(),
        objects: Mutex::default(),
        meetings: Meetings::default(),
        outgoing: OutgoingMoves::default(),
        drain: Drain::default(),
        sending_cmdlines: Mutex::default(),
        pass: guests.pass,
        userfault,
        changed: tsys::eventfd()?,
        report_pause: Pause::default(),
    });
    let mut table = GuestTable {
        shared: shared.clone(),
        code: region.code(),
        zygote,
        bodies: BTreeMap::new(),
        cookies: SiginfoCookies::default(),
        early: VecDeque::new(),
        withheld,
    };
    let host = Arc::new(Host { shared, tracer });
    armento_migrate::failpoint::side_of(host.start.tree);
    let h = host.clone();
    spawn::start("serve", move || calls::serve(&h))?;
    let h = host.clone();
    spawn::start("passage", move || threads::watch_injected_calls(&h))?;
    let h = host.clone();
    spawn::start("talk", move || {
        let _claim = h.home.reads();
        early.into_iter().for_each(|m| home::receive(&h, m));
        home::read_messages(&h, reader);
    })?;
    let h = host.clone();
    spawn::start("posts", move || h.home.send_lingering())?;
    let h = host.clone();
    let to_us = listening.clone();
    spawn::start("accept", move || home::accept(&h, &to_us))?;
    let h = host.clone();
    spawn::start("pulse", move || home::pulse(&h))?;
    let h = host.clone();
    spawn::start("alone", move || home::watch_link(&h))?;
    spawn::start("report", move || home::report_to_daemon(&host, &listening))?;
    // Other threads wait for this one; what it sends home is bounded by the threads of guests.
    session::never_wait();
    event_loop.hold(&mut table);
    drop(guests.alive);
    Ok(())
}

/// Before: as the user that started the host.
fn userfault_access() -> UserfaultAccess {
    let device = File::options().read(true).write(true).open(uffd::DEVICE);
    match device {
        Ok(device) => UserfaultAccess::Device(device),
        Err(_) if unprivileged() => UserfaultAccess::Call,
        Err(_) => UserfaultAccess::No,
    }
}

/// KERNEL: Documentation/admin-guide/sysctl/vm.rst, unprivileged_userfaultfd.
fn unprivileged() -> bool {
    let text = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    text.is_ok_and(|t| t.trim() == "1")
}
