//! Reports to this node's daemon, and its orders.
//!
//! From: `host/src/start.rs`. Next: `noded/src/hosts/mod.rs`.

use crate::state::{GuestTable, Host, PULSE, PULSE_CALM, PULSE_EMPTY, Shared};
use crate::sync::lock;
use armento_client::api::{Answer, Ask, Build, GuestInfo, HostHello, Order, RENEW, Report};
use armento_client::{Again, AskError, Session, version};
use armento_link::Listener as Door;
use armento_model::Stay;
use armento_tracee::{cpu, status, sys as tsys};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Reports the guests to this node's daemon; finds it again when it was restarted.
pub fn report_to_daemon(host: &Arc<Host>, door: &Door) {
    let mut renewed = Instant::now();
    let mut again = Again::default();
    loop {
        if let Ok(mut s) = Session::connect() {
            let me = HostHello {
                tree: host.start.tree,
                home: host.start.home.clone(),
                host: std::process::id() as i32,
                uid: host.start.uid,
                build: Build::own(),
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
                while let Some((guests, pause)) = host.tracer.run(guest_list) {
                    if renewed.elapsed() > RENEW && renew(host, door, &mut s) {
                        renewed = Instant::now();
                    }
                    if s.report(Report::Guests { guests }).is_err() {
                        break;
                    }
                    match next(host, &mut s, pause) {
                        Ok(Some(Order::Expel { why, stay, for_ms })) => {
                            let until = Instant::now() + Duration::from_millis(for_ms);
                            host.tracer
                                .run(move |guests| expel(guests, until, (stay, why)));
                        }
                        // What it signed was refused already; with new keys this host refuses it, too.
                        Ok(Some(Order::Cut { .. })) => drop(renew(host, door, &mut s)),
                        Ok(_) | Err(AskError::Late) => {}
                        Err(_) => break,
                    }
                }
            }
        }
        std::thread::sleep(again.pause());
    }
}

/// What the daemon orders within `pause`; it ends sooner when a guest came or went, but not more often than every
/// [`PULSE`].
fn next(shared: &Shared, s: &mut Session, pause: Duration) -> Result<Option<Order>, AskError> {
    let sent = Instant::now();
    let mut until = sent + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ready = s.has_order();
        let ms = if ready {
            0
        } else {
            left.as_micros().div_ceil(1000) as i32
        };
        let got = tsys::poll_in(&[s.as_raw_fd(), shared.changed.as_raw_fd()], ms);
        if ready || got[0] {
            return s.order(Some(Duration::ZERO));
        }
        if got[1] {
            tsys::drain(shared.changed.as_raw_fd());
            until = until.min(sent + PULSE);
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Identities live a day, trees longer.
fn renew(shared: &Shared, door: &Door, s: &mut Session) -> bool {
    let Ok(Answer::Identity { identity }) = s.ask(Ask::Identity, Duration::from_secs(5)) else {
        return false;
    };
    let done = door.renew(&identity).is_ok();
    if done {
        *lock(&shared.identity) = identity;
    }
    done
}

/// The guests, and how long this report holds.
fn guest_list(guests: &mut GuestTable) -> (Vec<GuestInfo>, Duration) {
    let shared = guests.shared.clone();
    // Draining also waits for inbound moves.
    let all = shared.drain.why().is_some();
    let live = guests.bodies.values().filter(|b| all || !b.quiet);
    let live = live.map(|b| GuestInfo {
        pid: b.pid,
        tree: shared.start.tree,
        home: shared.start.home.clone(),
        command: status::comm(b.here, b.here),
        cpu_ms: cpu::process_ns(b.here) / 1_000_000,
        rss_kib: status::rss_kib(b.here),
        threads: b.threads.len() as u32,
        busy_percent: b.busy_percent,
        frozen: shared.home.disconnected.load(Ordering::Acquire),
    });
    let pause = match guests.bodies.is_empty() {
        _ if all || guests.has_young() => PULSE,
        true => PULSE_EMPTY,
        false => PULSE_CALM,
    };
    (live.collect(), pause)
}

/// Every guest is to go home, and none to come until then; a time that is over ends the drain.
fn expel(guests: &mut GuestTable, until: Instant, (stay, why): (Stay, String)) {
    let why = if why.is_empty() {
        "the node where it ran leaves the farm".into()
    } else {
        why
    };
    guests.shared.drain.set(until, stay, why);
    for b in guests.bodies.values().filter(|b| !b.quiet) {
        guests.shared.send_home(b.pid);
    }
}
