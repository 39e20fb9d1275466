//! The loop that makes one move after the other.
//!
//! From: `keeper/src/daemon.rs` (orders), `keeper/src/events/exec.rs` (exec stops), `keeper/src/calls/dispatch.rs` (calls).
//! Next: `move_process.rs`.

use super::come_home::{TRY_AGAIN, come_home, come_home_observed};
use super::move_process::{is_begun_elsewhere, move_process};
use super::outcome::MoveCost;
use super::placement::place_at_exec;
use super::storm;
use crate::calls::make_call;
use crate::safe::build_again;
use crate::sharing::{partner_of_stay, sharers_of};
use crate::state::{Keep, MoveQueue, StayReason, Task, Why, tell_user};
use crate::traced::{hold_for_user, mark_placed, release_hold};
use armento_client::api::{Dest, Report};
use armento_migrate::Result;
use armento_model::{NodeName, Pid, Stay};
use armento_tracee::{spawn, sys};
use std::sync::Arc;
use std::time::Duration;

/// Carries out what comes into `tasks`, for ever.
pub fn run_moves(keep: &Arc<Keep>, tasks: &MoveQueue) {
    loop {
        let task = tasks.pop();
        match &task.why {
            Why::Exec => place_at_exec(keep, task.pid),
            Why::Call(_, why) if is_begun_elsewhere(keep, task.pid) => {
                cannot_come_home(task.pid, why);
            }
            Why::Call(stay, why) => {
                let kept = StayReason::new(*stay, why);
                if !come_home(keep, task.pid, &kept, TRY_AGAIN) {
                    later(keep, task);
                }
            }
            Why::Observed(by) => come_home_observed(keep, task.pid, *by),
            Why::Dump => {
                let kept = StayReason::new(Stay::UnsupportedCall, "it dumps core");
                come_home(keep, task.pid, &kept, 1);
            }
            Why::Lost(from) => build_again(keep, task.pid, from, &task.to),
            Why::Back { by_hand } => {
                let back = move_process(keep, task.pid, &task.to, false);
                if back.is_ok() && *by_hand {
                    mark_placed(keep, task.pid);
                }
            }
            Why::Recovered => drop(move_process(keep, task.pid, &Dest::Home, false)),
            Why::Storm => storm(keep, &task),
            Why::Order(ticket) | Why::User(ticket) => {
                if task.to != Dest::Balance {
                    release_hold(keep, task.pid);
                }
                order(keep, &task, *ticket);
            }
            Why::Balance(ticket) => balance(keep, &task, *ticket),
            Why::BalanceAll(ticket) => order(keep, &task, *ticket),
        }
        if tasks.len() == 0 {
            armento_tracee::sys::give_back();
        }
    }
}

/// Between rounds of tries to bring a body home that waits for a call. What stands against it ends by itself, but not soon:
/// a replay, a vfork child that runs on, memory that home is short of. `armento why` tells it.
const NEXT_ROUND: Duration = Duration::from_secs(1);

fn later(keep: &Arc<Keep>, task: Task) {
    if !keep.move_queue.put_off(task.pid) {
        return;
    }
    let k = keep.clone();
    spawn::soon("come home", move || {
        std::thread::sleep(NEXT_ROUND);
        k.move_queue.come_now(task);
    });
}

/// The call waits for a home where its program cannot run.
fn cannot_come_home(pid: Pid, why: &str) {
    let line = format!(
        "armento: process {pid} ended: it makes a call that is made at home only ({why}), and its checkpoint was made under another kernel\n\
         hint: the checkpoint file is as it was: restart it on a node with that kernel\n"
    );
    tell_user(pid, &line);
    let _ = sys::kill(pid, libc::SIGKILL);
}

fn storm(keep: &Arc<Keep>, task: &Task) {
    let gone = move_process(keep, task.pid, &task.to, true);
    if let Some(calls) = &keep.storm_call {
        calls.moved(task.pid, |d, c| make_call(keep, d, c));
        if gone.is_ok() && task.to == Dest::Home {
            storm::out_again(keep, calls, task.pid);
        }
    }
}

/// The balancer counted one process and would be given all that share memory with it: it is told of them, and decides
/// again.
fn balance(keep: &Arc<Keep>, task: &Task, ticket: u64) {
    let group = sharers_of(task.pid);
    let others = group.len() - 1;
    if others == 0 {
        return order(keep, task, ticket);
    }
    let pid = task.pid;
    let (stay, detail) = (
        Stay::SharedMemory,
        format!("it shares memory with {others} others: they move together"),
    );
    let kept = StayReason::new(stay, &detail).with(partner_of_stay(pid, stay));
    keep.tracer.run(move |t| t.note(pid, Some(kept)));
    keep.daemon.report(Report::Stayed {
        ticket,
        pid,
        stay,
        detail,
        group,
    });
}

/// Waits before a busy process is tried again for its user: it forks or execs at this moment, or another that shares its
/// memory does.
const BUSY_WAITS_MS: [u64; 5] = [20, 50, 100, 200, 400];

/// Moves it; for its user more than once.
fn carry_out(keep: &Arc<Keep>, task: &Task) -> Result<(NodeName, MoveCost)> {
    let by_user = matches!(task.why, Why::User(_));
    let mut waits = BUSY_WAITS_MS.iter().filter(|_| by_user);
    loop {
        let done = move_process(keep, task.pid, &task.to, false);
        match (&done, waits.next()) {
            (Err(e), Some(ms)) if e.stay() == Stay::Busy => {
                std::thread::sleep(Duration::from_millis(*ms));
            }
            _ => return done,
        }
    }
}

fn order(keep: &Arc<Keep>, task: &Task, ticket: u64) {
    let pid = task.pid;
    let r = match task.to {
        Dest::Hold => hold_for_user(keep, pid, || carry_out(keep, task)),
        _ => carry_out(keep, task),
    };
    let placed = matches!(task.to, Dest::Node(_) | Dest::Home);
    if r.is_ok() && placed && matches!(task.why, Why::User(_)) {
        mark_placed(keep, pid);
    }
    let report = match r {
        Ok((node, d)) => Report::Moved {
            ticket,
            pid,
            node,
            pause_us: d.pause.as_micros() as u64,
            total_us: d.total.as_micros() as u64,
            bytes: d.bytes,
        },
        Err(e) => Report::Stayed {
            ticket,
            pid,
            stay: e.stay(),
            detail: e.detail(),
            group: Vec::new(),
        },
    };
    keep.daemon.report(report);
}
