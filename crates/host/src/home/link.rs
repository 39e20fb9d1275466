//! The way home: one stream, over one connection after the other, and how long this tree lives without it.

use crate::home::messages::PULSE;
use crate::state::guests::Zoo;
use crate::state::shared::{ALONE, Shared, lock};
use crate::threads::stops;
use armento_link::{Reader, Writer};
use armento_tracee::aside;
use armento_wire::session::{Closer, Session};
use armento_wire::talk::{Resume, SessionId, WELCOME};
use armento_wire::{WireError, write_frame};
use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
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
                "no word from home for {} ms: this host ends",
                alone.as_millis()
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
            stops::run_on(zoo, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::messages::{PULSE_CALM, PULSE_EMPTY};

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
