//! Freezing a body: every thread halted, no call under way, at the moment of one's choice.

use crate::state::guests::{Body, Freezer, Th, Zoo};
use crate::state::shared::{FOR_MOVE, Shared, Waiting, lock};
use crate::threads::stops;
use armento_migrate::{MigrateError, Result};
use armento_model::{MoveId, Pid, Stay, Tid};
use armento_tracee::{cpu, trace};
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A freeze that takes longer is given up; the process runs on.
const FREEZE_MAX: Duration = Duration::from_secs(3);

/// Freezes `pid`. After `Ok` every thread is halted, and every signal that home sent has been queued here:
/// those that come later wait at home. After an error it may be frozen, or half so: `thaw` it. Call from a
/// bulk thread.
pub fn freeze(sh: &Arc<Shared>, mv: MoveId, pid: Pid) -> Result<()> {
    let until = Instant::now() + FREEZE_MAX;
    // Forks and mappings first: they are short, and a fork needs its home.
    let (proc, sleepers) = sh
        .hand
        .run(move |zoo| begin(zoo, mv, pid))
        .unwrap_or(Err(MigrateError::Ended))?;
    while proc.specials.load(Ordering::SeqCst) > 0 {
        if !proc.freezes(FOR_MOVE) {
            return Err(MigrateError::Ended);
        }
        if Instant::now() > until {
            return Err(MigrateError::Stays(
                Stay::Busy,
                "a fork or mapping is under way".into(),
            ));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    crate::calls::readahead::over(sh, &proc, pid);
    let (tx, rx) = mpsc::channel();
    sh.hand.run(move |zoo| halt(zoo, pid, tx, sleepers));
    let left = || until.saturating_duration_since(Instant::now());
    let held = sh.ask_stream(|seq| ToHome::Freezing { mv, pid, seq });
    let halted = rx.recv_timeout(left());
    let held = held.and_then(|h| h.recv_timeout(left()).ok());
    match (halted, held) {
        (Ok(()), Some(_)) => Ok(()),
        (Err(mpsc::RecvTimeoutError::Disconnected), _) => Err(MigrateError::Ended),
        (Err(mpsc::RecvTimeoutError::Timeout), _) => Err(MigrateError::Stays(
            Stay::Busy,
            "a thread does not stop".into(),
        )),
        (Ok(()), None) => Err(MigrateError::Stays(
            Stay::LinkLost,
            "home does not answer".into(),
        )),
    }
}

/// Returns the threads that are in a call, by their numbers here.
fn begin(
    zoo: &mut Zoo,
    mv: MoveId,
    pid: Pid,
) -> Result<(Arc<crate::state::shared::Proc>, Vec<Tid>)> {
    // What ends the freeze of a move that was given up comes behind the word that it was.
    if zoo.sh().turns.aborted(mv) {
        return Err(MigrateError::Ended);
    }
    let b = zoo.bodies.get_mut(&pid).ok_or(MigrateError::Ended)?;
    let busy = b.proc.exiting.load(Ordering::Acquire)
        || b.quiet
        || b.stopped
        || b.releases.is_some()
        || b.threads.values().any(|t| t.asking);
    if busy || !b.threads.contains_key(&pid) {
        return Err(MigrateError::Stays(
            Stay::Busy,
            "it is stopped or about to end".into(),
        ));
    }
    // SeqCst with `Special::begin`: one of the two sees the other.
    b.proc.freeze(FOR_MOVE, true);
    // Behind the flag: nothing that is not seen here begins any more.
    let sleepers = armento_migrate::stop::delicate(b.here)?;
    cpu::look_ahead(b.threads.values().map(|t| t.cell.here));
    let sleepers = sleepers.into_iter().map(|c| c.tid).collect();
    Ok((b.proc.clone(), sleepers))
}

fn halt(zoo: &mut Zoo, pid: Pid, tx: mpsc::Sender<()>, sleepers: Vec<Tid>) {
    let sh = zoo.sh();
    // The move may have been given up meanwhile.
    let frozen = |b: &&mut Body| b.proc.freezes(FOR_MOVE);
    let Some(b) = zoo.bodies.get_mut(&pid).filter(frozen) else {
        return;
    };
    b.freezer = Some(Freezer {
        tx,
        first: sleepers,
        told: false,
    });
    let first = |f: &Freezer, t: &Th| f.first.contains(&t.cell.here);
    interrupt(&sh, b, first);
    stops::tell_freezer(&sh, b);
}

/// Those that sleep are stopped first, the others when these stand: until then they run on.
pub fn interrupt(sh: &Shared, b: &Body, which: impl Fn(&Freezer, &Th) -> bool) {
    let Some(f) = &b.freezer else { return };
    let running = b.threads.values().filter(|t| t.halted.is_none());
    for th in running.filter(|t| which(f, t)) {
        let _ = trace::interrupt(th.cell.here);
        let mut st = lock(&th.cell.st);
        if let Some(Waiting::Parked { id }) = st.waiting {
            st.waiting = None;
            sh.listener.reply(id, -513);
        }
    }
}

/// The freeze is off: everything runs on.
pub fn thaw(sh: &Arc<Shared>, pid: Pid) {
    sh.hand.run(move |zoo| {
        if let Some(b) = zoo.bodies.get_mut(&pid) {
            b.freezer = None;
            // What its deputy held of them may be gone: home had begun to make room.
            b.proc.words.store(0, Ordering::Relaxed);
            b.proc.freeze(FOR_MOVE, false);
        }
        stops::run_on(zoo, pid);
    });
}
