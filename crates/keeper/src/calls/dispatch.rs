//! Home answers: what a host asks, the deputies do.
//!
//! From: `host/src/calls/forward.rs`, `wire/src/call.rs`. Next: `execute.rs`, then `fork_and_map.rs` for the rest.
//!
//! Nothing here waits for a deputy: while one is killed or stopped the host's stream would not be read, and all processes
//! of that host would be given up. The tracer thread is waited for: it waits for no call of a deputy.

use super::execute::issue;
use super::exit::exit;
use super::replay::{await_peers, behind_peers, held_until_covered, met_by_replay, replayed};
use super::{cmdline, fork_and_map, names, proc_access, readahead};
use crate::deputy::{AGAIN, Admitted, Deputy, HostLink, Message, Work};
use crate::hosts::{CallsReader, body_died, end_other_way};
use crate::sharing::settle_ended;
use crate::signals::{
    break_calls, can_break_calls, exec_body, is_exec, nudge_call, take_default_action,
};
use crate::sockets;
use crate::state::{Keep, MoveEvent, Safe, Task, Tree, Why};
use crate::sync::lock;
use armento_abi::{BadCall, Otherwise, Place, sends};
use armento_client::api::Dest;
use armento_migrate::stop_threads::DEFAULT_NOTHING;
use armento_model::Pid;
use armento_tracee::call::bit;
use armento_tracee::region::DATA;
use armento_tracee::spawn;
use armento_tracee::sys::SigInfo;
use armento_wire::WireError;
use armento_wire::call::{CALL, Call, NAMES, POSTED, decode_call};
use armento_wire::talk::{self, TALK, ToHome, ToHost};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Rows that the host handles itself and forwards in part; every other such row is refused.
const SERVED_IN_PART: [i64; 9] = [
    libc::SYS_setitimer,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
];

/// Reads one connection of a host's calls stream until it breaks; why it did.
pub fn serve_host(keep: &Arc<Keep>, link: &Arc<HostLink>, r: &mut CallsReader) -> WireError {
    let mut buf = Vec::new();
    loop {
        let kind = match link.session.hear(r, &mut buf) {
            Ok(kind) => kind,
            Err(e) => return e,
        };
        *lock(&link.last_heard) = Instant::now();
        let came = match kind {
            CALL => checked_call(&buf).map(|c| Message::Call(Box::new(c))),
            TALK => talk::decode(&buf, "message")
                .and_then(check_signal)
                .map(Message::Talk),
            _ => Err(WireError::Garbled("message")),
        };
        match came {
            Ok(m) => in_its_turn(keep, link, m),
            Err(e) => {
                eprintln!("{}: {e}; its processes end", link.node);
                return e;
            }
        }
    }
}

/// Carries a message out behind the posted calls that came before it.
fn in_its_turn(keep: &Arc<Keep>, link: &Arc<HostLink>, m: Message) {
    if let Message::Talk(m @ (ToHome::Usage { .. } | ToHome::Clock { .. } | ToHome::Alive)) = m {
        // They say nothing about files, and home's answer shows the host that it is heard.
        return handle_message(keep, link, m);
    }
    match link.posts.admit(m.caller(), m) {
        Admitted::Now(m) => carry_out(keep, link, m),
        Admitted::Later { start: false } => {}
        Admitted::Later { start: true } => {
            let (keep, link) = (keep.clone(), link.clone());
            spawn::soon("behind", move || {
                link.posts
                    .drain(Message::caller, |m| carry_out(&keep, &link, m));
            });
        }
    }
}

fn carry_out(keep: &Arc<Keep>, link: &Arc<HostLink>, m: Message) {
    match m {
        Message::Call(c) => call(keep, link, c),
        Message::Talk(m) => handle_message(keep, link, m),
    }
}

/// KERNEL: 1 to _NSIG.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

/// A signal number that does not exist would leave its deputy stopped, and the tracer thread waiting for it.
fn check_signal(m: ToHome) -> Result<ToHome, WireError> {
    let is = match &m {
        ToHome::Default { sig, info, .. } => {
            SIGNALS.contains(sig) && info.0.len() == size_of::<SigInfo>()
        }
        ToHome::Died { sig, .. } => SIGNALS.contains(sig),
        _ => true,
    };
    is.then_some(m).ok_or(WireError::Garbled("signal"))
}

/// A call that home makes for bodies; posted only if that call may be.
fn checked_call(body: &[u8]) -> Result<Call, WireError> {
    let c = decode_call(body, DATA as usize)?;
    let nr = i64::from(c.packed.nr);
    if c.flags & POSTED != 0 && !armento_abi::row(nr as u64).is_some_and(|r| r.posts) {
        return Err(WireError::Garbled("posted call"));
    }
    let host_row = armento_abi::row(nr as u64)
        .is_none_or(|r| matches!(r.place, Place::Host | Place::BodyIf(_, Otherwise::Host)));
    if host_row && !SERVED_IN_PART.contains(&nr) {
        return Err(WireError::Refused(BadCall::NotServed(c.packed.nr)));
    }
    Ok(c)
}

fn call(keep: &Arc<Keep>, link: &Arc<HostLink>, c: Box<Call>) {
    if c.flags & NAMES != 0 && link.names.requests.unserved() {
        let (keep, link) = (keep.clone(), link.clone());
        spawn::soon("names", move || names::serve(&keep, &link));
    }
    names::end_seen_leases(keep, c.packed.nr.into(), &c.packed.args);
    match keep.deputy_of(link, c.tid.at_home()) {
        // Its body has the result already: it is made whatever becomes of the process.
        Some(d) if c.flags & POSTED != 0 => d.serve_posted(c),
        Some(d) if d.common.breaking.load(Ordering::Acquire) => {
            link.reply(c.tid.at_home(), c.seq, AGAIN, &[])
        }
        Some(d) if replayed(keep, &d, &c) => {}
        Some(d) if let Some(record) = behind_peers(&d) => {
            let (keep, link) = (keep.clone(), link.clone());
            spawn::soon("peers", move || {
                await_peers(&record, None);
                call(&keep, &link, c);
            });
        }
        Some(d) if is_exec(c.packed.nr) => {
            // In the tracer thread, where signals are seen: none can come between the look and the exec.
            keep.tracer.post(move |t| exec_body(t, &d, c));
        }
        Some(d) => {
            let Some(c) = held_until_covered(keep, &d, c) else {
                return;
            };
            match proc_access::target(keep, &d, &c.packed) {
                Some(target) => proc_access::hold(keep, target, d, c),
                None => issue(keep, d, c),
            }
        }
        // It has ended, and the host will learn of it; no reply will tell that its posts are done with.
        None if c.flags & POSTED != 0 => {
            drop(link.posts.begin(0, sends::posted(&c.packed)));
            link.send(&ToHost::Posted(link.posts.tell_now()));
        }
        None => {}
    }
}

/// Whether the body is lost, though it may have run for a moment since: it is built again, and ends again.
fn is_lost(t: &Tree, pid: Pid) -> bool {
    let safe = t.procs.get(&pid).and_then(|p| p.safe.as_ref());
    safe.is_some_and(Safe::is_recovering)
}

/// The same of a thread's body.
fn ends_with_lost_body(keep: &Keep, d: &Deputy) -> bool {
    let pid = d.pid;
    d.common.record.is_some() && keep.tracer.run(move |t| is_lost(t, pid)) == Some(true)
}

/// Signals whose default is not an end. POSIX.1-2017, signal.h.
const NOT_FATAL: u64 = DEFAULT_NOTHING
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

/// The end of a body, after what it shared and others can find has come home: a process that learns of the end may look
/// for it.
fn after_settling(keep: &Arc<Keep>, pid: Pid, end: impl FnOnce(&mut Tree) + Send + 'static) {
    if keep.shm_guards.is_empty() {
        return keep.tracer.post(end);
    }
    let keep = keep.clone();
    spawn::soon("settle", move || {
        settle_ended(&keep, pid);
        keep.tracer.post(end);
    });
}

fn handle_message(keep: &Arc<Keep>, link: &Arc<HostLink>, m: ToHome) {
    match m {
        ToHome::Fork {
            tid,
            seq,
            flags,
            exit_signal,
            thread,
        } => match keep.deputy_of(link, tid.at_home()) {
            Some(d) if d.common.breaking.load(Ordering::Acquire) => link.send(&ToHost::Forked {
                tid,
                seq,
                ret: AGAIN,
                stay: None,
            }),
            Some(d) if met_by_replay(keep, &d, "a new thread or process") => {}
            Some(d) => fork_and_map::fork(keep, &d, seq, flags, exit_signal, thread),
            None => link.send(&ToHost::Forked {
                tid,
                seq,
                ret: -i64::from(libc::ESRCH),
                stay: None,
            }),
        },
        ToHome::Ignored {
            pid,
            tid,
            ignored,
            heard,
            away,
            thread_away,
        } => {
            let (pid, tid) = (pid.at_home(), tid.at_home());
            let Some(d) = keep.deputy_of(link, tid).filter(|d| d.pid == pid) else {
                return;
            };
            // Set before the exec that follows on this stream is read.
            let changed = keep
                .tracer
                .run(move |t| t.ignored(pid, ignored, heard))
                .unwrap_or(0);
            keep.cpu.reported(d.pid, away);
            keep.cpu.thread_reported(d.pid, tid, thread_away);
            fork_and_map::ignore(&d, changed, ignored);
        }
        ToHome::Exit { pid, code, away } => {
            let (l, pid) = (link.clone(), pid.at_home());
            after_settling(keep, pid, move |t| {
                let early = t
                    .procs
                    .get(&pid)
                    .is_some_and(|p| p.is_at(&l) && p.replays());
                match early {
                    _ if is_lost(t, pid) => {}
                    true => {
                        end_other_way(t, pid, "it ended before it had made all its calls again")
                    }
                    false => exit(t, &l, pid, code, away),
                }
            });
        }
        ToHome::ThreadExit { tid, .. } => {
            if let Some(d) = keep.deputy_of(link, tid.at_home())
                && !ends_with_lost_body(keep, &d)
                && !met_by_replay(keep, &d, "the end of a thread")
            {
                d.submit(Work::End {
                    nr: libc::SYS_exit,
                    code: 0,
                });
            }
        }
        ToHome::Died { pid, sig } => {
            let (l, pid) = (link.clone(), pid.at_home());
            after_settling(keep, pid, move |t| body_died(t, &l, pid, sig));
        }
        ToHome::Default {
            pid,
            tid,
            sig,
            info,
            away,
        } => {
            let (pid, tid) = (pid.at_home(), tid.at_home());
            if let Some(d) = keep.deputy_of(link, tid) {
                keep.cpu.reported(d.pid, away);
            }
            let l = link.clone();
            let take = move |t: &mut Tree| take_default_action(t, &l, pid, tid, sig, &info);
            match NOT_FATAL & bit(sig) {
                0 => after_settling(keep, pid, take),
                _ => keep.tracer.post(take),
            }
        }
        ToHome::ComeHome {
            pid,
            tid,
            stay,
            why,
            about,
        } => {
            let pid = pid.at_home();
            // A process that is not there (any more) asks again where it is.
            let Some(d) = keep.deputy_of(link, tid.at_home()).filter(|d| d.pid == pid) else {
                return;
            };
            if met_by_replay(keep, &d, "a call that only home can make") {
                return;
            }
            keep.move_queue.push_urgent(Task {
                pid,
                to: Dest::Home,
                why: Why::Call(stay, why),
            });
            // Before the process that asks.
            if let Some(whom) = about.and_then(|p| keep.deputy(p.at_home())).map(|d| d.pid) {
                keep.move_queue.come_first(whom, pid);
            }
        }
        ToHome::Map { tid, seq, args } => match keep.deputy_of(link, tid.at_home()) {
            Some(d) => fork_and_map::map(keep, &d, seq, args),
            None => link.send(&ToHost::Mapped {
                seq,
                ret: -i64::from(libc::ENOMEM),
                key: None,
                stay: None,
            }),
        },
        ToHome::Fetch { seq, key } => fork_and_map::fetch(keep, link, seq, key),
        ToHome::Ahead {
            pid,
            seq,
            fd,
            from,
            len,
        } => readahead::requested(keep, link, pid.at_home(), seq, fd, from, len),
        ToHome::Stands { pid, list, over } => {
            readahead::offsets_read(keep, link, pid.at_home(), &list, &over)
        }
        ToHome::Reads { list } => readahead::reads_served(keep, link, &list),
        ToHome::Offsets { pid, list } => readahead::offsets_of(keep, link, pid.at_home(), &list),
        ToHome::MountSeen { seq, seen } => link.mounts.answered(seq, seen),
        ToHome::Nudge { tid, seq } => {
            if keep.deputy_of(link, tid.at_home()).is_some() {
                keep.tracer.post(move |t| nudge_call(t, tid.at_home(), seq));
            }
        }
        ToHome::Freezing { mv, pid, seq } => {
            let link = link.clone();
            keep.tracer.post(move |t| {
                // A move that was given up meanwhile has cleaned up behind itself.
                let here = t.procs.get(&pid.at_home()).is_some_and(|p| p.is_at(&link));
                if t.keep.moves.is_under_way(mv) && here {
                    if let Err(e) = can_break_calls(t, pid.at_home()) {
                        // Its source is told at once: a thread in such a call would not stop.
                        let (stay, detail) = (e.stay(), e.detail());
                        t.keep
                            .moves
                            .notify(None, mv, MoveEvent::Failed { stay, detail });
                        return link.send(&ToHost::Abort { mv, pid });
                    }
                    break_calls(t, pid.at_home());
                }
                link.send(&ToHost::Held { seq });
            });
        }
        ToHome::Ready { mv, bytes, away } => {
            keep.moves
                .notify(Some(link), mv, MoveEvent::Ready { bytes, away })
        }
        ToHome::Failed { mv, stay, detail } => {
            keep.moves
                .notify(Some(link), mv, MoveEvent::Failed { stay, detail })
        }
        ToHome::Warmed { mv } => keep.moves.notify(Some(link), mv, MoveEvent::Warmed),
        ToHome::Thawed { mv } => {
            // A body runs there from now on.
            link.empty.store(false, Ordering::Relaxed);
            keep.moves.notify(Some(link), mv, MoveEvent::Thawed)
        }
        ToHome::Words(w) => {
            let l = link.clone();
            // Written before the call that wants to read it.
            keep.tracer.run(move |t| cmdline::write(t, &l, &w));
        }
        ToHome::Usage { list } => {
            // Its sign of life: its bodies run on for as long as it knows that home hears it.
            link.session.acknowledge();
            link.empty.store(list.is_empty(), Ordering::Relaxed);
            let l = link.clone();
            keep.tracer.post(move |t| t.usage(&l, list));
        }
        ToHome::Clock { asked_ns } => {
            let ns = armento_tracee::sys::clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0);
            link.send(&ToHost::Clock { asked_ns, ns });
        }
        ToHome::Socket(news) => sockets::news(keep, link, news),
        ToHome::Alive => {}
    }
}
