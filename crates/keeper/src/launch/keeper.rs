//! The life of a keeper: it says hello, starts its threads, and this thread becomes the tracer thread.
//!
//! From: `start.rs`. Next: `keeper/src/events/dispatch.rs`, `keeper/src/daemon.rs`, `keeper/src/moves/run.rs`.

use super::leases;
use super::options::{Begin, Birth};
use crate::handover::begin_anew_often;
use crate::moves::{refuses_start, run_loss_storm, run_moves, run_storm};
use crate::remote;
use crate::safe::make_checkpoints;
use crate::saved::begin_from_file;
use crate::state::{DaemonQueue, Inbox, Keep, Safety, Settings, Storm, Tree};
use crate::{daemon, sockets, sys};
use armento_client::api::{Build, KeeperHello};
use armento_client::{AskError, Session};
use armento_migrate::stop_threads::StoppedThreads;
use armento_model::{Pid, TreeId};
use armento_tracee::tracer_thread::{self, Palm};
use armento_tracee::{spawn, status, trace};
use armento_wire::session;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// At home calls are not seen: a process leaves from there after this.
const CALL_STORM_HOME_MS: u64 = 3;

/// How long the daemon may still hold a process that has ended: its keeper looks at least once a second.
const FORGETS_MAX: Duration = Duration::from_secs(5);
const FORGETS_LOOK: Duration = Duration::from_millis(50);

/// The keeper's answer: the process has one already.
pub const HELD: [u8; 1] = *b"h";

/// The keeper's answer: it cannot keep the process; the reason follows.
pub const NOT_KEPT: [u8; 1] = *b"n";

/// Programs that are placed at once under `--spread`: while one loads, or waits for its node, another is sent.
const PLACED_AT_ONCE: usize = 3;

/// No shell has more ancestors.
const GENERATIONS_MAX: usize = 256;

/// A process and those that it descends from.
fn above(pid: Pid) -> Vec<Pid> {
    let parent = |pid: &Pid| Some(status::read(*pid).ok()?.ppid).filter(|p| *p > 1);
    let all = std::iter::successors(Some(pid), parent);
    all.take(GENERATIONS_MAX).collect()
}

fn random() -> u64 {
    let mut b = [0u8; 8];
    let got = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut b));
    if got.is_err() {
        return u64::from(std::process::id());
    }
    u64::from_le_bytes(b)
}

/// What every program of a keeper begins with.
pub fn set_up_process() {
    if let Some(path) = std::env::var_os("ARMENTO_KEEPER_LOG") {
        sys::log_to(path.as_ref());
    }
    sys::panics_to_syslog();
    armento_tracee::sys::frugal_malloc();
    armento_tracee::sys::all_descriptors();
    armento_tracee::sched_slice::waking();
}

/// The keeper's life.
pub fn keeper(b: Birth, program: Pid, door: UnixStream) {
    sys::give_up_inheritance(&[door.as_raw_fd()]);
    set_up_process();
    let mut door = door;
    let mut kind = [0u8; 1];
    if door.read_exact(&mut kind).is_err() {
        return;
    }
    let starting = kind[0] == b't';
    let tree_id = TreeId(random());
    let words: Vec<_> = b.command.iter().map(|w| w.to_string_lossy()).collect();
    let hello = KeeperHello {
        tree: tree_id,
        keeper: std::process::id() as Pid,
        root: program,
        above: above(program),
        uid: sys::uid(),
        command: words.join(" "),
        pinned: b.on.clone(),
        stay: b.stay,
        storm: b.storm.is_some(),
        common: b.portable.as_ref().map(|p| p.common.clone()),
        begins_here: b.begin == Begin::Here,
        hint: b.hint,
        safe: b.safe.map(Safety::wish),
        safe_chosen: b.safe.is_some(),
        build: Build::own(),
    };
    let begun = Instant::now();
    let is_held = |said: &Result<_, AskError>| matches!(said, Err(AskError::Refused(no)) if no.code == "held");
    let mut said = daemon::introduce(&hello);
    // The process that had this number before a restart may have ended a moment ago.
    while b.restart.is_some() && is_held(&said) && begun.elapsed() < FORGETS_MAX {
        std::thread::sleep(FORGETS_LOOK);
        said = daemon::introduce(&hello);
    }
    let daemon::Introduced {
        session,
        node,
        direct_sockets,
    } = match said {
        Ok(introduced) => introduced,
        Err(AskError::Refused(no)) if no.code == "held" => {
            let _ = door.write_all(&HELD);
            return;
        }
        Err(e) => {
            let _ = door.write_all(&NOT_KEPT);
            let _ = door.write_all(format!("{e}\0{}", e.hint()).as_bytes());
            return;
        }
    };
    let hello = KeeperHello {
        above: Vec::new(),
        ..hello
    };
    armento_migrate::failpoint::side_of(tree_id);
    let Ok((tracer, event_loop)) = tracer_thread::new::<Tree>() else {
        return;
    };
    let settings = Settings {
        node,
        tree: tree_id,
        root: program,
        pinned: b.on.clone(),
        stay: b.stay,
        spread: b.spread,
        storm: b.storm.map(|storm| (storm, b.seed.unwrap_or_else(random))),
        safe: b.safe,
        forward_files: b.forward_files,
        direct_sockets: b.direct_sockets,
        home_forbids_direct: !direct_sockets,
        portable: b.portable.clone(),
        hello,
    };
    let (control, inbox) = DaemonQueue::new();
    // It waits for us with what it was given.
    let inherited = starting.then(|| {
        crate::calls::open_files(program)
            .map(|(_, id)| id)
            .collect()
    });
    let keep = Arc::new(Keep::new(
        settings,
        tracer,
        control,
        inherited,
        b.restart.clone(),
    ));
    let mut world = Tree::new(keep.clone(), program);
    let mut seized = false;
    if starting {
        let mut stopped = StoppedThreads::new(program);
        // Those that the first program of a restart is made of fork before they begin.
        let options = match &b.restart {
            Some(_) => trace::FOLLOW,
            None => trace::WATCH,
        };
        seized = stopped.seize(options).is_ok();
        if seized {
            world.begins_at_exec(program);
        }
        let _ = stopped.disband();
    }
    if b.restart.is_some() && !seized {
        let _ = door.write_all(&NOT_KEPT);
        let _ =
            door.write_all(b"the programs may not be traced here\0is the command itself traced?");
        return;
    }
    // At home the program runs untraced, so its end is no event of the tracer thread. Without this the daemon would
    // count a program that ended for as long as the tree is not scanned.
    let inbox = inbox.told_of_end(armento_tracee::sys::pidfd_open(program).ok());
    if let Err(e) = start_threads(&keep, Some(session), inbox) {
        return eprintln!("keeper: {e}");
    }
    if starting && b.on.is_some() {
        // The tracer thread works meanwhile: the session with the daemon asks it what to report.
        let k = keep.clone();
        let asked = move || match refuses_start(&k, b.on.as_ref(), seized) {
            None => drop(door.write_all(b"k")),
            Some((why, hint)) => {
                let _ = door.write_all(&NOT_KEPT);
                let _ = door.write_all(format!("{why}\0{hint}").as_bytes());
                k.daemon.close(Duration::from_millis(500));
                // What was seized goes on by itself.
                std::process::exit(0);
            }
        };
        if let Err(e) = spawn::start("way", asked) {
            return eprintln!("keeper: {e}");
        }
    } else {
        let _ = door.write_all(b"k");
        drop(door);
    }
    serve(&keep, event_loop, &mut world);
}

/// This thread is the tracer thread until the tree has ended.
pub fn serve(keep: &Keep, event_loop: Palm<Tree>, world: &mut Tree) {
    // Processes that make room wait for this thread.
    session::never_wait();
    event_loop.hold(world);
    remote::ended(keep);
    keep.daemon.close(Duration::from_millis(500));
}

/// All threads of a keeper but the tracer thread.
pub fn start_threads(
    keep: &Arc<Keep>,
    session: Option<Session>,
    inbox: Inbox,
) -> std::io::Result<()> {
    spawn::spare()?;
    let k = keep.clone();
    spawn::start("control", move || daemon::run(&k, session, inbox))?;
    let k = keep.clone();
    spawn::start("moves", move || run_moves(&k, &k.move_queue))?;
    if keep.settings.spread {
        for _ in 0..PLACED_AT_ONCE {
            let k = keep.clone();
            spawn::start("placements", move || run_moves(&k, k.placements()))?;
        }
    }
    let k = keep.clone();
    spawn::start("sockets", move || sockets::run(&k))?;
    if keep.settings.safe.is_some() {
        let k = keep.clone();
        spawn::start("checkpoints", move || make_checkpoints(&k))?;
    }
    if let Some(every) = keep.settings.safe.and_then(|s| s.remote) {
        remote::start(keep, every)?;
    }
    if keep.restarts.is_some() {
        let k = keep.clone();
        spawn::start("restart", move || begin_from_file(&k))?;
    }
    leases::start(keep)?;
    if let Some((storm, seed)) = keep.settings.storm {
        let k = keep.clone();
        let ms = match storm {
            Storm::Every(ms) => ms.max(1),
            Storm::Call => CALL_STORM_HOME_MS,
            Storm::Loss(ms) | Storm::Handover(ms) => ms.max(1),
        };
        let every = Duration::from_millis(ms);
        let run = match storm {
            Storm::Loss(_) => run_loss_storm,
            Storm::Every(_) | Storm::Call | Storm::Handover(_) => run_storm,
        };
        if matches!(storm, Storm::Handover(_)) {
            let k = keep.clone();
            spawn::start("handovers", move || begin_anew_often(&k, every))?;
        }
        spawn::start("storm", move || run(&k, every, seed))?;
    }
    let k = keep.clone();
    if k.storm_call.is_some() {
        spawn::start("storm-call", move || {
            if let Some(calls) = &k.storm_call {
                calls.move_blocked(&k.move_queue);
            }
        })?;
    }
    Ok(())
}
