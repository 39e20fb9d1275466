//! What this node's daemon hears of its guests, and what it orders.
//!
//! From: `start.rs`. Next: `noded/src/hosts/mod.rs`.

use crate::home::messages::{PULSE, PULSE_CALM, PULSE_EMPTY};
use crate::state::drain;
use crate::state::guests::Zoo;
use crate::state::shared::{Shared, lock};
use armento_client::api::{Answer, Ask, GuestInfo, HostHello, Order, RENEW, Report};
use armento_client::{Again, AskError, Session, version};
use armento_link::Listener as Door;
use armento_tracee::{cpu, status, sys as tsys};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Tells this node's daemon about the guests; finds it again when it was restarted.
pub fn report(sh: &Arc<Shared>, door: &Door) {
    let mut renewed = Instant::now();
    let mut again = Again::default();
    loop {
        if let Ok(mut s) = Session::connect() {
            let me = HostHello {
                tree: sh.start.tree,
                home: sh.start.home.clone(),
                host: std::process::id() as i32,
                uid: sh.start.uid,
            };
            let asked = s.ask(Ask::Host(me), Duration::from_secs(5));
            if matches!(asked, Err(AskError::Refused(_))) {
                again.refused();
            }
            if asked.is_ok() {
                again.found();
                if version::is_to_come() {
                    let _ = s.report(Report::ToCome);
                }
                while let Some((guests, pause)) = sh.hand.run(guest_list) {
                    if renewed.elapsed() > RENEW && renew(sh, door, &mut s) {
                        renewed = Instant::now();
                    }
                    if s.report(Report::Guests { guests }).is_err() {
                        break;
                    }
                    match next(sh, &mut s, pause) {
                        Ok(Some(Order::Expel { why, stay, for_ms })) => {
                            let until = Instant::now() + Duration::from_millis(for_ms);
                            sh.hand
                                .run(move |zoo| drain::expel(zoo, until, (stay, why)));
                        }
                        // What it signed was refused anyhow; from now on we refuse it.
                        Ok(Some(Order::Cut { .. })) => drop(renew(sh, door, &mut s)),
                        Ok(_) | Err(AskError::Late) => {}
                        Err(_) => break,
                    }
                }
            }
        }
        std::thread::sleep(again.pause());
    }
}

/// What the daemon orders within `pause`; when somebody came or went it hears of it sooner, but not more often than every
/// [`PULSE`].
fn next(sh: &Shared, s: &mut Session, pause: Duration) -> Result<Option<Order>, AskError> {
    let told = Instant::now();
    let mut until = told + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ready = s.has_order();
        let ms = if ready {
            0
        } else {
            left.as_micros().div_ceil(1000) as i32
        };
        let got = tsys::poll_in(&[s.as_raw_fd(), sh.changed.as_raw_fd()], ms);
        if ready || got[0] {
            return s.order(Some(Duration::ZERO));
        }
        if got[1] {
            tsys::drain(sh.changed.as_raw_fd());
            until = until.min(told + PULSE);
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Identities live a day, trees longer.
fn renew(sh: &Shared, door: &Door, s: &mut Session) -> bool {
    let Ok(Answer::Identity { identity }) = s.ask(Ask::Identity, Duration::from_secs(5)) else {
        return false;
    };
    let done = door.renew(&identity).is_ok();
    if done {
        *lock(&sh.identity) = identity;
    }
    done
}

/// … and when there will be something else to tell.
fn guest_list(zoo: &mut Zoo) -> (Vec<GuestInfo>, Duration) {
    let sh = zoo.sh();
    // Who sends its guests away waits for those on their way here, too.
    let all = sh.shut.why().is_some();
    let live = zoo.bodies.values().filter(|b| all || !b.quiet);
    let live = live.map(|b| GuestInfo {
        pid: b.pid,
        tree: sh.start.tree,
        home: sh.start.home.clone(),
        command: status::comm(b.here, b.here),
        cpu_ms: cpu::process_ns(b.here) / 1_000_000,
        rss_kib: status::rss_kib(b.here),
        threads: b.threads.len() as u32,
        busy_percent: b.busy_percent,
        frozen: sh.home.alone.load(Ordering::Acquire),
    });
    let pause = match zoo.bodies.is_empty() {
        _ if all || zoo.has_young() => PULSE,
        true => PULSE_EMPTY,
        false => PULSE_CALM,
    };
    (live.collect(), pause)
}
