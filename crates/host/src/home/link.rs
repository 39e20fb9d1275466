//! How long this tree lives without its home.

use crate::state::{DISCONNECTED, GuestTable, Host};
use crate::threads;
use armento_model::HomePid;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

/// How often it is checked whether home is still there: home waits a second longer than this host.
const CHECK_EVERY: Duration = Duration::from_millis(100);
const CHECK_MIN: Duration = Duration::from_millis(20);

/// Checks, for ever, whether home hears us. It counts from when the last message was sent that home acknowledged: home
/// counts from when it received that, which is later, whichever direction of the network fails.
pub fn watch_link(host: &Arc<Host>) {
    let home = &host.home;
    let mut frozen = false;
    loop {
        // Until it could be late; while guests are frozen it is checked more often.
        let left = home
            .freeze
            .saturating_sub(home.session.answered().elapsed());
        sleep(if frozen {
            CHECK_EVERY
        } else {
            left.max(CHECK_MIN)
        });
        let silence = home.session.answered().elapsed();
        if silence > home.dead {
            eprintln!(
                "no word from home for {} ms: this host ends",
                silence.as_millis()
            );
            std::process::exit(0);
        }
        let late = silence > home.freeze;
        if late != frozen {
            frozen = late;
            home.disconnected.store(late, Ordering::Release);
            // Not waited for: the tracer thread may wait itself, and the host must be able to end.
            host.tracer
                .post(move |guests: &mut GuestTable| hold_all(guests, late));
        }
    }
}

/// Without its home a tree must not run on: it might be declared dead there.
fn hold_all(guests: &mut GuestTable, hold: bool) {
    let pids: Vec<HomePid> = guests
        .bodies
        .values()
        .filter(|b| !b.quiet)
        .map(|b| b.pid)
        .collect();
    for pid in pids {
        if let Some(b) = guests.bodies.get_mut(&pid) {
            b.proc.freeze(DISCONNECTED, hold);
            if hold {
                for traced in b.threads.values().filter(|t| t.halted.is_none()) {
                    let _ = armento_tracee::trace::interrupt(traced.thread.here);
                }
            }
        }
        if !hold {
            threads::run_on(guests, pid);
        }
    }
}
