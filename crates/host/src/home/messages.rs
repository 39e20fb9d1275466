//! What home says to us, and the connections it and other hosts open.

use crate::calls::{cmdline, forward, mmap, readahead, timers};
use crate::home::link::Inlet;
use crate::moves::{arrive, depart, freeze, postcopy};
use crate::state::guests::Zoo;
use crate::state::shared::{Shared, lock};
use crate::threads::stops;
use armento_link::{Badge, Duplex, LinkError, Reader, Role, Writer};
use armento_model::{ENGINE_VERSION, Stay};
use armento_tracee::{aside, cpu, status, sys};
use armento_wire::bulk::HELLO;
use armento_wire::call::{PART, REPLY, decode_reply};
use armento_wire::session;
use armento_wire::talk::{self, Hello, Purpose, TALK, ToHome, ToHost, Usage};
use armento_wire::{WireError, read_frame};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Reads the first frame of a connection.
pub fn hello(r: &mut Reader) -> Result<Hello, WireError> {
    let mut buf = Vec::new();
    if read_frame(r, &mut buf)? != HELLO {
        return Err(WireError::Garbled("hello"));
    }
    let h: Hello = talk::decode(&buf, "hello")?;
    if h.engine == ENGINE_VERSION {
        Ok(h)
    } else {
        Err(WireError::Garbled("hello of our version"))
    }
}

/// Connections that have not said what they are for: a tree has a few of its keeper's, and one a move of other hosts.
const SILENT_MAX: usize = 64;
/// How long they may be silent. A keeper has one in reserve for 5 s (`keeper/src/links.rs`).
const HELLO_MAX: Duration = Duration::from_secs(10);
static SILENT: AtomicUsize = AtomicUsize::new(0);

/// The place of a connection before its hello.
pub struct Silent;

impl Silent {
    /// `None`: there are too many. Whoever comes then is let go of.
    pub fn take() -> Option<Silent> {
        let place = Silent;
        (SILENT.fetch_add(1, Ordering::AcqRel) < SILENT_MAX).then_some(place)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        SILENT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection and what it is for. Its socket, for options and its end.
pub fn opened(link: Duplex) -> Result<(Hello, TcpStream, Reader, Writer), WireError> {
    let socket = link.socket().try_clone()?;
    let lost = |e: LinkError| WireError::Io(std::io::Error::other(e));
    let (mut r, w) = link.split().map_err(lost)?;
    socket.set_read_timeout(Some(HELLO_MAX))?;
    let h = hello(&mut r)?;
    socket.set_read_timeout(None)?;
    Ok((h, socket, r, w))
}

/// A connection of somebody who was let in.
pub fn welcome(sh: &Arc<Shared>, link: Duplex, who: &Badge, silent: Silent) {
    let Ok((h, socket, r, w)) = opened(link) else {
        return;
    };
    drop(silent);
    if h.tree != sh.start.tree {
        return;
    }
    match h.purpose {
        Purpose::Calls(resume) => {
            let keeper = who.role == Role::Keeper;
            if let Some(_turn) = keeper.then(|| sh.home.turn(&resume)).flatten()
                && let Ok(inlet) = sh.home.take_up(&resume, (socket, r, w))
            {
                calls(sh, inlet);
            }
        }
        Purpose::Bring(mv) => arrive::receive(sh, mv, r, w),
        Purpose::Object(object) => {
            // Home sees the broken stream: a return is tried again, the end of a process says what is lost.
            let _ = depart::object(sh, object, w);
        }
        Purpose::Fetch(mv) => {
            // The Send may still be on its way over the other connection.
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                if let Some(tx) = depart::meet(sh, mv, None) {
                    let _ = tx.send((r, w));
                    return;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

/// One connection of the calls stream: replies and orders, until it breaks. Before: it is our turn to read.
pub fn calls(sh: &Arc<Shared>, mut r: Inlet) {
    session::never_wait();
    let mut buf = Vec::new();
    let why = loop {
        let fine = match sh.home.session.hear(&mut r, &mut buf) {
            Ok(kind @ (REPLY | PART)) => {
                decode_reply(&buf).map(|reply| forward::reply(sh, &reply, kind == PART))
            }
            Ok(TALK) => talk::decode::<ToHost>(&buf, "message").map(|m| hear(sh, m)),
            Ok(_) => Err(WireError::Garbled("message")),
            Err(e) => Err(e),
        };
        if let Err(e) = fine {
            break e;
        }
    };
    eprintln!("home: {why}");
    sh.home.session.cut();
    if !matches!(why, WireError::Io(_)) {
        // No accident of the cable, and what was said is not said again.
        std::process::exit(1);
    }
}

pub fn hear(sh: &Arc<Shared>, m: ToHost) {
    match m {
        ToHost::Forked { seq, .. } | ToHost::Mapped { seq, .. } | ToHost::Held { seq } => {
            answer(sh, seq, m, true)
        }
        ToHost::Ahead {
            pid,
            seq,
            fd,
            at,
            bytes,
            end,
        } => {
            let piece = readahead::Piece {
                seq,
                fd,
                at,
                bytes: &bytes,
                end,
            };
            readahead::filled(sh, pid, &piece);
        }
        ToHost::AheadOff { pid, fd } => {
            if let Some(c) = sh.cell_of(pid) {
                readahead::off(sh, &c.proc, pid, fd);
            }
        }
        ToHost::FileBytes { seq, end, .. } => answer(sh, seq, m, end),
        ToHost::Execed { pid } | ToHost::Kill { pid } => sh.hand.post(move |z| {
            z.early.retain(|e| e.id != pid);
            stops::remove(z, pid);
        }),
        ToHost::Warm { mv, files } => {
            let sh = sh.clone();
            aside::soon("warm", move || {
                for key in &files {
                    // One that does not come now comes with its process.
                    mmap::fetch(&sh, key, false);
                }
                sh.tell(&ToHome::Warmed { mv });
            });
        }
        ToHost::Forget { object } => drop(lock(&sh.objects).remove(&object)),
        ToHost::Drop { pid, .. } => sh.hand.post(move |z| postcopy::drop_later(z, pid)),
        ToHost::Signal { pid, tid, info } => {
            if let Ok(info) = info.0.as_slice().try_into() {
                let info: sys::SigInfo = info;
                // Queued before any later reply is read: the order home sent them in.
                sh.hand.run(move |z| {
                    stops::queue(z, pid, tid, &info);
                    if let Some(b) = z.bodies.get(&pid) {
                        b.proc.heard.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        }
        ToHost::Defaulted { pid, tid, stopped } => sh
            .hand
            .post(move |z| stops::defaulted(z, pid, tid, stopped)),
        ToHost::Dumps { pid, tid } => sh.hand.post(move |z| stops::dumps(z, pid, tid)),
        ToHost::Continue { pid } => sh.hand.post(move |z| stops::continued(z, pid)),
        ToHost::TimerVoid { pid, timer } => {
            sh.hand.run(move |z| timers::set(z, pid, timer));
        }
        ToHost::Poke { tid, addr, bytes } => {
            if let Some(c) = sh.cell_of(tid) {
                c.write(addr, &bytes);
            }
        }
        ToHost::Limits { pid, limits } => {
            if let Some(c) = sh.cell_of(pid) {
                for (resource, soft, hard) in limits {
                    crate::sys::set_limit(c.here, resource, soft, hard);
                }
            }
        }
        ToHost::Nice { list } => {
            for (tid, nice) in list {
                if let Some(c) = sh.cell_of(tid) {
                    crate::sys::set_nice(c.here, nice);
                }
            }
        }
        ToHost::Send { mv, pid, to } => {
            let s = sh.clone();
            if let Err(e) = aside::start("send", move || depart::run(&s, mv, pid, to)) {
                let (stay, detail) = (Stay::NoRoom, format!("no thread for the move: {e}"));
                sh.tell(&ToHome::Failed { mv, stay, detail });
            }
        }
        ToHost::Abort { mv, pid } => {
            depart::abort(sh, mv);
            sh.hand.run(move |z| arrive::drop_unthawed(z, mv, pid));
            freeze::thaw(sh, pid);
        }
        ToHost::Thaw { mv, pid } => sh.hand.post(move |z| arrive::thaw(z, mv, pid)),
        // Asked for before the first body, and answered there.
        ToHost::Clock { .. } | ToHost::Alive => {}
    }
}

fn answer(sh: &Shared, seq: u32, m: ToHost, last: bool) {
    let mut a = lock(&sh.answers);
    let tx = if last {
        a.remove(&seq)
    } else {
        a.get(&seq).cloned()
    };
    if let Some(tx) = tx {
        let _ = tx.send(m);
    }
}

/// Usage and a sign of life go home this often where somebody came lately …
pub const PULSE: Duration = Duration::from_millis(500);
/// … and else: home worries after two seconds (`SILENT`, `keeper/src/links.rs`). Each wakes four threads, here and at
/// home, and programs that take turns leave an empty host on every node they were on.
pub const PULSE_CALM: Duration = Duration::from_secs(1);
/// … and while nobody is here: home waits longer, too (`SILENT_EMPTY`).
pub const PULSE_EMPTY: Duration = Duration::from_secs(3);

/// A host without guests waits so long for its home.
const EMPTY_MAX: Duration = Duration::from_secs(2);

fn pulse_after(zoo: &Zoo) -> Duration {
    let home = &zoo.sh().home;
    match zoo.bodies.is_empty() {
        true => home.pulse(PULSE_EMPTY),
        false if zoo.has_young() => PULSE,
        false => home.pulse(PULSE_CALM),
    }
}

/// Usage and a sign of life to home.
pub fn pulse(sh: &Arc<Shared>) {
    let mut pause = PULSE;
    loop {
        // Whoever comes is told of soon.
        sh.nudge.wait(PULSE, pause);
        sys::give_back_rest();
        let Some((list, next)) = sh.hand.run(|zoo| (usage(zoo), pulse_after(zoo))) else {
            return;
        };
        pause = next;
        for u in &list {
            if let Some(c) = sh.cell_of(u.pid) {
                readahead::tell_positions(sh, &c.proc, u.pid);
            }
        }
        cmdline::tell(sh);
        let session = &sh.home.session;
        let _ = session.send_marked(TALK, &[&talk::encode(&ToHome::Usage { list })]);
        // A body that waits for its Thaw may own its process already.
        if !session.connected()
            && session.answered().elapsed() > EMPTY_MAX
            && sh.hand.run(|z: &mut Zoo| z.bodies.is_empty()) == Some(true)
        {
            eprintln!("nobody is here, and home is gone: this host ends");
            std::process::exit(0);
        }
    }
}

/// A call that home answers within this time is no sleep of the program's own.
pub const CALL_SHORT: Duration = Duration::from_millis(50);
/// … if the program uses this much of a processor between, thousandths.
const COMPUTES_PERMILLE: u64 = 20;

/// A quota leaves at least this part of the time. KERNEL: sched-bwc.rst: 1 ms of a period of at most 1 s.
const QUOTA_LEAST: u32 = 1000;

/// Looks how much of a processor each body wants. Time in which our forwarding kept it from running
/// counts: a program that reads and computes would be runnable at home. Time in which a quota held us all does not:
/// it may have slept until we could serve it.
fn look(zoo: &mut Zoo) {
    let all_withheld = zoo.withheld.since_last();
    for b in zoo.bodies.values_mut().filter(|b| !b.quiet) {
        let (before, then) = b.looked;
        let ns = cpu::process_ns(b.here);
        b.looked = (ns, Instant::now());
        let past = then.elapsed();
        let withheld = all_withheld.min(past - past / QUOTA_LEAST);
        let past = (past - withheld).as_nanos() as u64;
        let computes = ns.saturating_sub(before) * 1000 >= past * COMPUTES_PERMILLE;
        let threads = b.threads.values().map(|t| {
            let asked = std::mem::take(&mut lock(&t.cell.st).asked_ns);
            (t.cell.here, if computes { asked } else { 0 })
        });
        let without = if computes { withheld } else { Duration::ZERO };
        b.busy_percent = b.demand.look(threads, without);
    }
}

fn usage(zoo: &mut Zoo) -> Vec<Usage> {
    look(zoo);
    let live = zoo.bodies.values().filter(|b| !b.quiet);
    live.map(|b| Usage {
        pid: b.pid,
        away: crate::calls::cpu_time::away(&b.proc),
        rss_kib: status::rss_kib(b.here),
        busy_percent: b.busy_percent,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_are_few() {
        let all: Vec<Silent> = (0..SILENT_MAX).filter_map(|_| Silent::take()).collect();
        assert_eq!(all.len(), SILENT_MAX);
        assert!(Silent::take().is_none());
        drop(all);
        assert!(Silent::take().is_some());
    }
}
