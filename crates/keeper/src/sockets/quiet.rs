//! Before a connection goes directly no call on it is under way at home.
//!
//! From: `connection.rs`. Before: its host holds new ones.

use crate::signals::break_calls_that;
use crate::state::{Away, Keep, Tree};
use armento_abi::Arg;
use armento_abi::sends::transfers;
use armento_model::Pid;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that was interrupted has ended, and a short one of ours is made, within this time.
const QUIET_MAX: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_micros(50);

/// Calls that wait for descriptors that are not among their arguments.
const POLLS: [i64; 4] = [
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
];

fn names(nr: i64, args: &[u64; 6], fd: i32) -> bool {
    let row = armento_abi::row(nr as u64);
    let kinds = row.into_iter().flat_map(|r| r.args.iter().zip(args));
    kinds
        .into_iter()
        .any(|(kind, value)| *kind == Arg::Fd && *value as i32 == fd)
}

/// Interrupts calls on a descriptor. An error: it is used in another way just now.
pub fn end_calls(keep: &Arc<Keep>, pid: Pid, fd: i32) -> Result<(), &'static str> {
    let until = Instant::now() + QUIET_MAX;
    let done = keep.tracer.run(move |t: &mut Tree| {
        let p = t.procs.get(&pid).ok_or("its process has ended")?;
        if p.away().is_none_or(Away::is_stopped) {
            // Its deputies stand still, and their calls with them.
            return Err("its process is stopped, or at home");
        }
        for (nr, args) in p.deputies().filter_map(|d| d.call()) {
            if nr == libc::SYS_restart_syscall {
                return Err("a thread goes on with a wait that a move interrupted");
            }
            if names(nr, &args, fd) && !transfers(nr as u64) {
                return Err("another call uses it just now");
            }
        }
        break_calls_that(t, pid, move |nr, args| {
            POLLS.contains(&nr) || names(nr, args, fd)
        });
        Ok(())
    });
    done.unwrap_or(Err("its process has ended"))?;
    loop {
        let busy = keep.tracer.run(move |t: &mut Tree| {
            t.procs.get(&pid).is_none_or(|p| {
                p.deputies().any(|d| match d.call() {
                    Some((nr, args)) => POLLS.contains(&nr) || names(nr, &args, fd),
                    // A fork, or a call of ours.
                    None => !d.is_idle(),
                })
            })
        });
        match busy {
            Some(false) => return Ok(()),
            Some(true) if Instant::now() < until => std::thread::sleep(LOOK),
            _ => return Err("it is used just now"),
        }
    }
}
