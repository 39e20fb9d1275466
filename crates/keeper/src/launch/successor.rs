//! A keeper's process has begun this program: it takes the tree over from the program before.
//!
//! From: `keeper/src/handover/give.rs`, in the program before. Next: `keeper.rs`.

use super::keeper::{serve, set_up_process, start_threads};
use crate::handover::{Handed, Standing, send_back};
use crate::restart::RestartedCalls;
use crate::state::{DaemonQueue, Keep, Process, Tree};
use crate::traced::resume_process;
use crate::{daemon, sys};
use armento_client::api::Build;
use armento_migrate::stop_threads::StoppedThreads;
use armento_tracee::sys::{SigInfo, pidfd_open};
use armento_tracee::tracer_thread;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Goes on with the tree whose state is at this descriptor, until it has ended. The status to exit with.
pub fn succeed(state: RawFd) -> i32 {
    match Handed::read(state).and_then(take_over) {
        Ok(()) => 0,
        Err(e) => {
            // Threads that stood still go on when their tracer ends.
            eprintln!("a keeper's state cannot be taken over, and its programs go on at home: {e}");
            1
        }
    }
}

fn take_over(was: Handed) -> io::Result<()> {
    sys::name_process();
    set_up_process();
    let (tracer, event_loop) = tracer_thread::new::<Tree>()?;
    let mut settings = was.settings;
    settings.hello.build = Build::own();
    settings.hello.above.clear();
    armento_migrate::failpoint::side_of(settings.tree);
    let root = settings.root;
    let safe = settings.safe;
    let (control, inbox) = DaemonQueue::new();
    let keep = Arc::new(Keep::new(settings, tracer, control, was.inherited, None));
    keep.placed_away.store(was.placed_away, Ordering::Relaxed);
    keep.lease.take_over(was.lease);
    keep.job.take_over(was.job);
    let procs = was.procs.into_iter().map(|p| {
        let p = Process::take_over(&keep.cpu, p, safe);
        (p.pid, p)
    });
    let procs = procs.collect();
    keep.cpu.take_over(was.cpu);
    let mut world = Tree::of(keep.clone(), procs);
    world.publish();
    world.restart_blocks = was.threads.restart_blocks;
    world.wait_deadlines = was.threads.wait_deadlines;
    world.futex_waits = was.threads.futex_waits;
    world.cpu_fixup.restarted = RestartedCalls::of(was.threads.restarted);
    world.follow.wakeups = was.threads.wakeups;
    world.follow.not_execed = was.threads.not_execed;
    for standing in was.threads.standing {
        let pid = standing.pid;
        resume_process(&mut world, pid, stopped(standing));
    }
    // Without a daemon the tree goes on; one is looked for.
    let session = daemon::introduce(&keep.settings.hello).ok();
    let session = session.map(|introduced| introduced.session);
    let program = world
        .procs
        .contains_key(&root)
        .then(|| pidfd_open(root).ok());
    start_threads(&keep, session, inbox.told_of_end(program.flatten()))?;
    send_back(&keep, was.away);
    serve(&keep, event_loop, &mut world);
    Ok(())
}

fn stopped(was: Standing) -> StoppedThreads {
    let halted = was.halted.into_iter().map(|h| {
        let info = |(sig, info): (i32, Vec<u8>)| Some((sig, SigInfo::try_from(info).ok()?));
        (h.tid, h.signal.and_then(info))
    });
    StoppedThreads::inherited(was.pid, was.seized, halted)
}
