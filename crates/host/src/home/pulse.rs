//! Reports to home: usage of each guest, and a sign of life.
//!
//! From: `host/src/start.rs`. Next: `keeper/src/hosts/connect.rs`.

use crate::calls;
use crate::state::{GuestTable, Host, PULSE, PULSE_CALM, PULSE_EMPTY};
use crate::sync::lock;
use armento_tracee::{cpu, status, sys};
use armento_wire::talk::{self, TALK, ToHome, Usage};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A host without guests waits so long for its home.
const EMPTY_MAX: Duration = Duration::from_secs(2);

fn pulse_after(guests: &GuestTable) -> Duration {
    let home = &guests.shared.home;
    match guests.bodies.is_empty() {
        true => home.pulse(PULSE_EMPTY),
        false if guests.has_young() => PULSE,
        false => home.pulse(PULSE_CALM),
    }
}

/// Usage and a sign of life to home.
pub fn pulse(host: &Arc<Host>) {
    let mut pause = PULSE;
    loop {
        // A guest that comes is reported soon.
        host.report_pause.wait(PULSE, pause);
        sys::give_back_rest();
        let Some((list, next)) = host
            .tracer
            .run(|guests| (usage(guests), pulse_after(guests)))
        else {
            return;
        };
        pause = next;
        for u in &list {
            if let Some(c) = host.threads.of_home(u.pid.leader()) {
                calls::send_positions(host, &c.proc, u.pid);
                calls::send_offsets(host, &c.proc, u.pid);
            }
        }
        calls::send_cmdlines(host);
        host.sockets.give_back_full(&host.home);
        let session = &host.home.session;
        let _ = session.send_marked(TALK, &[&talk::encode(&ToHome::Usage { list })]);
        // A body that waits for its Thaw may own its process already.
        if !session.connected()
            && session.answered().elapsed() > EMPTY_MAX
            && host
                .tracer
                .run(|guests: &mut GuestTable| guests.bodies.is_empty())
                == Some(true)
        {
            eprintln!("no guest is here, and home is gone: this host ends");
            std::process::exit(0);
        }
    }
}

/// Time spent waiting for short calls counts as demand, if the program uses this much of a processor between, thousandths.
const COMPUTES_PERMILLE: u64 = 20;
/// A quota leaves at least this part of the time. KERNEL: sched-bwc.rst: 1 ms of a period of at most 1 s.
const QUOTA_LEAST: u32 = 1000;

/// Measures how much of a processor each body wants. Time in which forwarding kept it from running counts: a program that
/// reads and computes would be runnable at home. Time in which a quota held all of this host does not: the program may
/// have slept until its call could be served.
fn measure(guests: &mut GuestTable) {
    let all_withheld = guests.withheld.since_last();
    for b in guests.bodies.values_mut().filter(|b| !b.quiet) {
        let (before, then) = b.reported;
        let ns = cpu::process_ns(b.here);
        b.reported = (ns, Instant::now());
        let past = then.elapsed();
        let withheld = all_withheld.min(past - past / QUOTA_LEAST);
        let past = (past - withheld).as_nanos() as u64;
        let computes = ns.saturating_sub(before) * 1000 >= past * COMPUTES_PERMILLE;
        let threads = b.threads.values().map(|t| {
            let asked = std::mem::take(&mut lock(&t.thread.call).asked_ns);
            (t.thread.here, if computes { asked } else { 0 })
        });
        let without = if computes { withheld } else { Duration::ZERO };
        b.busy_percent = b.demand.look(threads, without);
    }
}

fn usage(guests: &mut GuestTable) -> Vec<Usage> {
    measure(guests);
    let live = guests.bodies.values().filter(|b| !b.quiet);
    live.map(|b| Usage {
        pid: b.pid,
        away: b.proc.cpu_away(),
        rss_kib: status::rss_kib(b.here),
        busy_percent: b.busy_percent,
        files: *lock(&b.proc.files),
    })
    .collect()
}
