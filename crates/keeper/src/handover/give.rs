//! This program's side: bodies come home, traced threads stand still, and the process begins its next program.
//!
//! From: `keeper/src/daemon.rs` (the order). Next: `keeper/src/launch/successor.rs`, in the next program.

use super::written::{Handed, HandedThreads, Standing, StandingThread, VERSION};
use crate::lifecycle::scan_children;
use crate::moves::move_now;
use crate::remote::forget_kept;
use crate::sharing::sharers_of;
use crate::state::{Keep, MoveLock, Place, Process, Safety, Task, Tree, Why};
use crate::sys;
use crate::traced::{call_fixups, resume_process};
use armento_client::api::{Dest, Report, SafeWish};
use armento_migrate::stop_threads::StoppedThreads;
use armento_model::{NodeName, Pid, Stay, Tid};
use armento_tracee::{status, trace};
use armento_wire::talk::ToHost;
use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for all bodies to come home.
const HOME_MAX: Duration = Duration::from_secs(120);
/// Between two looks at programs that are just being placed.
const LOOK: Duration = Duration::from_millis(20);
/// Time for the last reports.
const REPORTS_MAX: Duration = Duration::from_millis(500);
/// Time for a new session after an attempt that failed.
const HELLO_MAX: Duration = Duration::from_secs(12);
/// The engine version from which hosts know that they are to end; those of an earlier one end two seconds later.
const END_SINCE: u32 = 28;
/// Time for hosts to end.
const END_MAX: Duration = Duration::from_millis(500);
const END_LOOK: Duration = Duration::from_millis(5);
/// Of the memory that is available at home, for bodies.
const MEMORY_PERCENT: u64 = 80;
/// Attempts at a moment in which no program begins and no thread is stopped by job control.
const TRIES: u32 = 5;

/// The verb by which a program takes over.
pub const TAKE_OVER: &str = "keeper";

/// KERNEL: proc(5). Also where another file is at its path by now.
const OWN_PROGRAM: &CStr = c"/proc/self/exe";

const BUSY: &str = "its keeper is becoming another program; try again";

static UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// A process that was away: its node, and whether its user had placed it there.
type Away = (Pid, NodeName, bool);

/// What the next program is to do otherwise.
#[derive(Clone, Copy)]
enum Change {
    Nothing,
    Safe { safe: Option<Safety>, by_user: bool },
}

/// Becomes the program at `path`, which has this device and inode. Returns only if that is not possible now: everything is as
/// before, and the daemon is told why.
pub fn become_program(keep: &Arc<Keep>, path: &Path, file: (u64, u64)) {
    let begun = checked(path, file).and_then(|program| begin(keep, &program, Change::Nothing));
    let Err(why) = begun;
    eprintln!("this keeper stays the program that it is: {why}");
    keep.daemon
        .report(Report::KeepsProgram { ticket: None, why });
}

/// Keeps the tree safe so from now on: this program begins anew. Returns only if that is not possible now.
pub fn keep_safe(keep: &Arc<Keep>, ticket: u64, wish: Option<SafeWish>, by_user: bool) {
    let safe = wish.map(Safety::of_wish);
    let change = Change::Safe { safe, by_user };
    let begun = may_change(keep, safe).and_then(|()| begin(keep, OWN_PROGRAM, change));
    let Err(why) = begun;
    keep.daemon.report(Report::KeepsProgram {
        ticket: Some(ticket),
        why,
    });
}

/// `--storm-handover`: begins this program anew after every two steps of the storm.
pub fn begin_anew_often(keep: &Arc<Keep>, every: Duration) {
    const STEPS: u32 = 2;
    loop {
        std::thread::sleep(every * STEPS);
        let Err(why) = begin(keep, OWN_PROGRAM, Change::Nothing);
        eprintln!("this program does not begin anew: {why}");
    }
}

fn may_change(keep: &Keep, safe: Option<Safety>) -> Result<(), String> {
    if keep.settings.storm.is_some() {
        return Err("a storm moves it about for a test".into());
    }
    // From a checkpoint at another node it could be recovered while it runs here without a lease.
    match safe.is_some_and(|s| s.remote.is_some()) {
        true => Ok(()),
        false => forget_kept(keep),
    }
}

fn begin(keep: &Arc<Keep>, program: &CStr, change: Change) -> Result<Infallible, String> {
    if UNDER_WAY.swap(true, Ordering::AcqRel) {
        return Err("it is just beginning another program".into());
    }
    let why = hand_over(keep, program, change);
    UNDER_WAY.store(false, Ordering::Release);
    Err(why)
}

/// Whether this program may be executed for our user.
fn checked(path: &Path, file: (u64, u64)) -> Result<CString, String> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|e| format!("{shown}: {e}"))?;
    if (found.dev(), found.ino()) != file {
        return Err(format!("{shown} is not the daemon's program here"));
    }
    if found.uid() != 0 && found.uid() != sys::uid() || found.mode() & 0o022 != 0 {
        return Err(format!("{shown} can be changed by other users"));
    }
    CString::new(path.as_os_str().as_bytes()).map_err(|e| format!("{shown}: {e}"))
}

/// Returns why it was not possible.
fn hand_over(keep: &Arc<Keep>, program: &CStr, change: Change) -> String {
    if let Some(why) = too_large(keep) {
        return why;
    }
    // What can be seen before any process is moved for it.
    if let Some(why) = keep.tracer.run(stands).flatten() {
        return why;
    }
    let until = Instant::now() + HOME_MAX;
    let mut away = Vec::new();
    let mut why = String::new();
    for _ in 0..TRIES {
        match all_home(keep, &mut away, until) {
            Ok(locks) => {
                refuse_waiting(keep);
                end_hosts(keep);
                keep.daemon.pause(REPORTS_MAX);
                let (program, goes_back) = (program.to_owned(), away.clone());
                let given = keep
                    .tracer
                    .run(move |t| give(t, &program, change, goes_back));
                drop(locks);
                keep.daemon.resume(HELLO_MAX);
                why = given.unwrap_or_else(|| "its programs have ended".to_owned());
            }
            Err(e) => {
                why = e;
                break;
            }
        }
        std::thread::sleep(LOOK);
    }
    send_back(keep, away);
    why
}

/// Whether home has too little memory for all bodies.
fn too_large(keep: &Keep) -> Option<String> {
    let bodies = |t: &mut Tree| {
        let away = t.procs.values().filter(|p| p.is_away());
        away.map(|p| p.usage.rss_kib).sum::<u64>()
    };
    let need = keep.tracer.run(bodies)?;
    let free = armento_sense::available_kib() / 100 * MEMORY_PERCENT;
    (need > free).then(|| {
        format!(
            "its processes elsewhere have {} MiB, and {} MiB are free here",
            need >> 10,
            free >> 10
        )
    })
}

/// Brings all processes home, and keeps them there as long as the locks are held. Those that were away are added to `away`.
fn all_home<'a>(
    keep: &'a Arc<Keep>,
    away: &mut Vec<Away>,
    until: Instant,
) -> Result<Vec<MoveLock<'a>>, String> {
    let mut locks = Vec::new();
    let mut locked: HashSet<Pid> = HashSet::new();
    loop {
        keep.tracer.run(scan_children);
        let new: Vec<Pid> = keep
            .pids()
            .into_iter()
            .filter(|pid| !locked.contains(pid))
            .collect();
        if new.is_empty() {
            return Ok(locks);
        }
        let mut begins = false;
        for pid in new {
            if locked.contains(&pid) {
                // It shares memory with one before, and came home with it.
                continue;
            }
            let Ok(mut turn) = keep.move_locks.take(pid) else {
                return Err(format!("a move of process {pid} does not end"));
            };
            match look(keep, pid) {
                Some(Found::Begins) => {
                    begins = true;
                    continue;
                }
                Some(Found::Away(..)) => {
                    let mut group = sharers_of(pid);
                    group.retain(|p| !locked.contains(p));
                    for pid in &group {
                        if let Some(Found::Away(node, by_hand)) = look(keep, *pid) {
                            away.push((*pid, node, by_hand));
                        }
                    }
                    let home = move_now(keep, &mut turn, pid, &Dest::Home, false);
                    home.map_err(|e| format!("process {pid} cannot come home: {e}"))?;
                }
                Some(Found::Home) => {}
                // It has ended.
                None => continue,
            }
            locked.extend(turn.pids());
            locks.push(turn);
        }
        if Instant::now() >= until {
            return Err("its programs do not all come home in time".to_owned());
        }
        if begins {
            std::thread::sleep(LOOK);
        }
    }
}

enum Found {
    /// It is about to become the user's program, or waits for its placement.
    Begins,
    Away(NodeName, bool),
    Home,
}

fn look(keep: &Keep, pid: Pid) -> Option<Found> {
    let found = move |t: &mut Tree| {
        let p = t.procs.get(&pid)?;
        Some(match p.place() {
            _ if p.is_before_exec() || p.is_at_exec() => Found::Begins,
            Place::Away(link) => Found::Away(link.node.clone(), p.pins.by_hand()),
            Place::Home => Found::Home,
        })
    };
    keep.tracer.run(found).flatten()
}

/// Hosts of the tree end: the processes go back to those of their node's program.
fn end_hosts(keep: &Keep) {
    let mut links = keep.hosts.all();
    links.retain(|link| link.pass.common_engine() >= END_SINCE);
    links.iter().for_each(|link| link.send(&ToHost::End));
    let until = Instant::now() + END_MAX;
    while links.iter().any(|l| l.session.connected()) && Instant::now() < until {
        std::thread::sleep(END_LOOK);
    }
}

/// Orders that wait are answered: the next program does not know them.
fn refuse_waiting(keep: &Keep) {
    for task in keep.move_queue.drain() {
        if let Why::Order(ticket)
        | Why::User(ticket)
        | Why::Balance(ticket)
        | Why::BalanceAll(ticket) = task.why
        {
            keep.daemon.report(Report::Stayed {
                ticket,
                pid: task.pid,
                stay: Stay::Busy,
                detail: BUSY.to_owned(),
                group: Vec::new(),
            });
        }
    }
}

/// Those that were away go back to where they were.
pub fn send_back(keep: &Keep, away: Vec<Away>) {
    for (pid, node, by_hand) in away {
        keep.move_queue.push(Task {
            pid,
            to: Dest::Node(node),
            why: Why::Back { by_hand },
        });
    }
}

/// On the tracer thread: returns only on failure, and says why.
fn give(t: &mut Tree, program: &CStr, change: Change, away: Vec<Away>) -> String {
    if let Some(why) = hinders(t) {
        return why;
    }
    let mut halted = Vec::new();
    for pid in t.procs.keys().copied().collect::<Vec<_>>() {
        if !is_traced(pid) {
            continue;
        }
        let mut stopped = StoppedThreads::new(pid);
        stopped.calls = Some(call_fixups(t, pid));
        let done = stopped.halt(trace::WATCH);
        halted.push((pid, stopped));
        if let Err(e) = done {
            resume(t, halted);
            return format!("process {pid} cannot be stopped: {e}");
        }
    }
    let mut handed = state(t, away, &halted);
    if let Change::Safe { safe, by_user } = change {
        handed.settings.set_safe(safe, by_user);
    }
    let written = handed.write();
    drop(handed);
    let e = match written {
        Ok(file) => exec(program, &file),
        Err(e) => e,
    };
    resume(t, halted);
    format!("{}: {e}", program.to_string_lossy())
}

/// Why this is no moment for it.
fn hinders(t: &Tree) -> Option<String> {
    let waits = |p: &Process| p.is_away() || p.is_before_exec() || p.is_at_exec();
    if let Some(p) = t.procs.values().find(|p| waits(p)) {
        return Some(format!("process {} is just beginning", p.pid));
    }
    if let Some(pid) = t.leaving.keys().next() {
        return Some(format!("process {pid} is just leaving"));
    }
    if t.keep.saving.load(Ordering::Acquire) {
        return Some("a checkpoint file is being written".to_owned());
    }
    t.procs
        .is_empty()
        .then(|| "its programs have ended".to_owned())
}

/// A process at home that is traced and stopped by job control: its threads cannot be halted.
fn stands(t: &mut Tree) -> Option<String> {
    let home = t.procs.values().filter(|p| !p.is_away());
    let mut stopped = home.filter(|p| trace::in_group_stop(p.pid) && is_traced(p.pid));
    let pid = stopped.next()?.pid;
    Some(format!("process {pid} is stopped (job control)"))
}

/// Whether this keeper traces one of its threads.
fn is_traced(pid: Pid) -> bool {
    let own = std::process::id();
    let threads = status::threads(pid).unwrap_or_default();
    let traced = |tid: Tid| status::read(tid).is_ok_and(|s| s.tracer as u32 == own);
    threads.into_iter().any(traced)
}

fn resume(t: &mut Tree, all: Vec<(Pid, StoppedThreads)>) {
    for (pid, stopped) in all {
        for h in &stopped.halted {
            t.remember_restart_block(h.tid());
        }
        resume_process(t, pid, stopped);
    }
}

fn state(t: &mut Tree, away: Vec<Away>, halted: &[(Pid, StoppedThreads)]) -> Handed {
    for (_, stopped) in halted {
        for h in &stopped.halted {
            t.remember_restart_block(h.tid());
        }
    }
    let standing = halted.iter().map(|(pid, stopped)| Standing {
        pid: *pid,
        seized: stopped.seized.clone(),
        halted: stopped
            .halted
            .iter()
            .map(|h| {
                let signal = h.signal.as_ref().map(|(sig, info)| (*sig, info.to_vec()));
                StandingThread {
                    tid: h.tid(),
                    signal,
                }
            })
            .collect(),
    });
    let keep = &t.keep;
    let mut settings = keep.settings.clone();
    // The next storm is another one.
    settings.storm = settings
        .storm
        .map(|(how, seed)| (how, seed.wrapping_add(1)));
    Handed {
        version: VERSION,
        settings,
        inherited: keep.inherited.clone(),
        placed_away: keep.placed_away.load(Ordering::Relaxed),
        lease: keep.lease.all(),
        job: keep.job.all(),
        procs: t.procs.values().map(Process::handed).collect(),
        cpu: keep.cpu.all(),
        away,
        threads: HandedThreads {
            standing: standing.collect(),
            restart_blocks: t.restart_blocks.clone(),
            wait_deadlines: t.wait_deadlines.clone(),
            futex_waits: t.futex_waits.clone(),
            restarted: t.cpu_fixup.restarted.all(),
            wakeups: t.follow.wakeups.clone(),
            not_execed: t.follow.not_execed.clone(),
        },
    }
}

/// Begins the program. Returns only on failure.
fn exec(program: &CStr, state: &File) -> io::Error {
    let word = |word: &str| CString::new(word);
    match (word(TAKE_OVER), word(&state.as_raw_fd().to_string())) {
        (Ok(verb), Ok(number)) => sys::become_program(program, &[c"armento", &verb, &number]),
        (Err(e), _) | (_, Err(e)) => e.into(),
    }
}
