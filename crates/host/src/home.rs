//! The way home: one stream, over one connection after the other, and how long this tree lives without it.

use crate::bodies;
use crate::shared::{ALONE, Shared, lock};
use crate::talk::PULSE;
use crate::world::Zoo;
use armento_link::{Reader, Writer};
use armento_tracee::{aside, status};
use armento_wire::session::{Closer, Session};
use armento_wire::talk::{Resume, SessionId, WELCOME};
use armento_wire::{WireError, write_frame};
use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::sleep;
use std::time::Duration;

/// Read at once: many small frames. Long ones do not pass through it.
const INLET: usize = 16 << 10;
/// How often we look whether home is still there: home waits a second longer than we do.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_MIN: Duration = Duration::from_millis(20);

pub type Inlet = BufReader<Reader>;

pub struct Home {
    pub session: Session<Writer>,
    id: SessionId,
    /// That of the newest connection.
    epoch: Mutex<Option<u32>>,
    /// Held by who reads the stream.
    reading: Mutex<()>,
    freeze: Duration,
    dead: Duration,
    /// Home was not there for `freeze`: everything is held.
    pub alone: AtomicBool,
}

impl Home {
    /// Of home's limits and this node's the shorter hold: home's own end is then never before ours.
    pub fn new(first: &Resume, (freeze_ms, dead_ms): (u64, u64)) -> Home {
        Home {
            session: Session::default(),
            id: first.session,
            epoch: Mutex::new(None),
            reading: Mutex::new(()),
            freeze: Duration::from_millis(first.freeze_ms.min(freeze_ms)),
            dead: Duration::from_millis(first.dead_ms.min(dead_ms)),
            alone: AtomicBool::new(false),
        }
    }

    /// The turn to read, for a connection that is newer than all others: those end. `None`: it is none.
    pub fn turn(&self, resume: &Resume) -> Option<MutexGuard<'_, ()>> {
        if resume.session != self.id {
            // Home has declared us dead and begins anew: nothing of the old may go on.
            eprintln!("home begins anew: this host ends");
            std::process::exit(0);
        }
        let newer = |last: Option<u32>| last.is_none_or(|e| e < resume.epoch);
        let mut epoch = lock(&self.epoch);
        if !newer(*epoch) {
            return None;
        }
        *epoch = Some(resume.epoch);
        drop(epoch);
        self.session.cut();
        let turn = lock(&self.reading);
        // Another may have come while we waited.
        (*lock(&self.epoch) == Some(resume.epoch)).then_some(turn)
    }

    /// Carries the stream on from where it stands. Before: it has the turn.
    pub fn take_up(
        self: &Arc<Home>,
        resume: &Resume,
        (socket, r, mut w): (TcpStream, Reader, Writer),
    ) -> Result<Inlet, WireError> {
        let heard = self.session.heard().to_le_bytes();
        write_frame(&mut w, WELCOME, &[&heard])?;
        let closer: Closer = Box::new(move || drop(socket.shutdown(Shutdown::Both)));
        if let Some(again) = self.session.attach(w, closer, resume.heard)? {
            let home = self.clone();
            if let Err(e) = aside::start("again", move || again.run(&home.session)) {
                self.session.cut();
                return Err(e.into());
            }
        }
        Ok(BufReader::with_capacity(INLET, r))
    }

    /// How often home hears of us, `most` at most: three pulses before any guest is frozen.
    pub fn pulse(&self, most: Duration) -> Duration {
        (self.freeze / 3).clamp(PULSE, most)
    }

    pub fn reads(&self) -> MutexGuard<'_, ()> {
        lock(&self.reading)
    }
}

/// That `hand`, the first thread, waits for a thread of a guest, if it does: then it is ours that home heard nothing.
/// KERNEL: proc_pid_syscall(5): the number and the arguments, hexadecimal.
fn waits(hand: i32) -> String {
    let call = |tid: i32| std::fs::read_to_string(format!("/proc/{tid}/syscall"));
    let at = call(hand).unwrap_or_default();
    let words: Vec<&str> = at.split(' ').collect();
    let arg = match words.first().and_then(|nr| nr.parse().ok()) {
        Some(libc::SYS_wait4) => words.get(1),
        Some(libc::SYS_waitid) => words.get(2),
        _ => None,
    };
    let tid = arg.and_then(|tid| i32::from_str_radix(tid.trim_start_matches("0x"), 16).ok());
    tid.map_or_else(String::new, |tid| {
        let state = status::thread_state(tid).unwrap_or('?');
        let of_it = call(tid).unwrap_or_default();
        format!(
            "; its hand waits for thread {tid}: state {state}, call {}",
            of_it.trim_end()
        )
    })
}

/// The same of our hand, asked aside: a look at a thread can itself wait, and this host must have ended when home says so.
fn waits_soon() -> String {
    let (tx, rx) = mpsc::channel();
    let asked = aside::start("waits", move || {
        let _ = tx.send(waits(std::process::id() as i32));
    });
    asked.map_or_else(
        |_| String::new(),
        |_| rx.recv_timeout(LOOK).unwrap_or_default(),
    )
}

/// Looks, for ever, whether home hears us. It counts from when we said the last of what home has heard: home counts from
/// when it heard that, which is later, whichever way the cable is cut.
pub fn watch(sh: &Arc<Shared>) {
    let home = &sh.home;
    let mut frozen = false;
    loop {
        // As long as nobody can be late; whoever is frozen is looked after more often.
        let left = home
            .freeze
            .saturating_sub(home.session.answered().elapsed());
        sleep(if frozen { LOOK } else { left.max(LOOK_MIN) });
        let alone = home.session.answered().elapsed();
        if alone > home.dead {
            eprintln!(
                "no word from home for {} ms: this host ends{}",
                alone.as_millis(),
                waits_soon()
            );
            std::process::exit(0);
        }
        let late = alone > home.freeze;
        if late != frozen {
            frozen = late;
            home.alone.store(late, Ordering::Release);
            // It may itself wait, and must not keep us from ending.
            sh.hand.post(move |z: &mut Zoo| hold_all(z, late));
        }
    }
}

/// Without its home a tree must not run on: it might be declared dead there.
fn hold_all(zoo: &mut Zoo, hold: bool) {
    let pids: Vec<i32> = zoo
        .bodies
        .values()
        .filter(|b| !b.quiet)
        .map(|b| b.pid)
        .collect();
    for pid in pids {
        if let Some(b) = zoo.bodies.get_mut(&pid) {
            b.proc.freeze(ALONE, hold);
            if hold {
                for th in b.threads.values().filter(|t| t.halted.is_none()) {
                    let _ = armento_tracee::trace::interrupt(th.cell.here);
                }
            }
        }
        if !hold {
            bodies::run_on(zoo, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::{PULSE_CALM, PULSE_EMPTY};

    #[test]
    fn only_newer_connections_have_the_turn_and_the_shorter_limits_hold() {
        let resume = |epoch| Resume {
            session: SessionId(7),
            epoch,
            heard: 0,
            freeze_ms: 3000,
            dead_ms: 9000,
        };
        let home = Home::new(&resume(0), (10_000, 5000));
        assert_eq!(home.freeze, Duration::from_secs(3));
        assert_eq!(home.dead, Duration::from_secs(5));
        assert!(home.turn(&resume(0)).is_some());
        assert!(home.turn(&resume(0)).is_none(), "it was repeated");
        assert!(home.turn(&resume(2)).is_some());
        assert!(home.turn(&resume(1)).is_none(), "it is older");
    }

    #[test]
    fn it_says_whom_the_hand_waits_for() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let pid = child.id();
        let me = || {
            let path = std::fs::read_link("/proc/thread-self").expect("proc(5)");
            let name = path.file_name().and_then(|tid| tid.to_str()?.parse().ok());
            name.expect("a thread's number")
        };
        assert_eq!(waits(me()), "", "who runs waits for nobody");
        let (tx, rx) = std::sync::mpsc::channel();
        let held = child.stdin.take();
        let hand = std::thread::spawn(move || {
            tx.send(me()).expect("heard");
            child.wait().expect("ours")
        });
        let hand_tid = rx.recv().expect("said");
        let mut looks = std::iter::repeat_with(|| waits(hand_tid)).take(10_000_000);
        let said = looks.find(|said| !said.is_empty());
        let want = format!("; its hand waits for thread {pid}: state ");
        assert!(said.is_some_and(|said| said.starts_with(&want)));
        drop(held);
        hand.join().expect("it ended");
    }

    #[test]
    fn three_pulses_come_before_a_freeze() {
        let pulse = |freeze_ms, most: Duration| {
            let resume = Resume {
                session: SessionId(7),
                epoch: 0,
                heard: 0,
                freeze_ms,
                dead_ms: 30_000,
            };
            let home = Home::new(&resume, (10_000, 30_000));
            home.pulse(most).as_millis()
        };
        let check = |most, want| {
            let got = [100, 1500, 2100, 10_000].map(|freeze_ms| pulse(freeze_ms, most));
            assert_eq!(got, want);
        };
        check(PULSE_CALM, [500, 500, 700, 1000]);
        check(PULSE_EMPTY, [500, 500, 700, 3000]);
    }
}
