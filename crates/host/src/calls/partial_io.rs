//! Calls of a guest that home ended before all bytes were done, where the guest would not have noticed.
//!
//! From: `reply.rs`, `forward.rs`. Next: home, which is asked for the rest.
//!
//! - A write to a pipe, a stream's socket or a terminal: a deputy is traced, so that any signal wakes it, and its call
//!   ends with the bytes that are written; or a move has interrupted it.
//! - recv with MSG_WAITALL on a stream: so too.
//!
//! Home's answer has this fact, and how much is done. Should the guest stop meanwhile, the count waits in its
//! [`CallState`](crate::state::CallState) or travels, and the call that the kernel issues again is for the rest. A
//! handler ends it with the part, as natively.

use super::post::{post, signal_is_pending};
use crate::state::{Answer, BodyMem, Guest, GuestThread, Host, Next, PartialIo, Then};
use crate::sync::lock;
use armento_abi::sends;
use armento_migrate::image::restarts::ERESTARTNOINTR;
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use std::sync::Arc;

/// A process comes home for more at once than a slot holds (`abi/src/marshal/packer.rs`), not for the rest of it.
const ASK_MAX: u64 = DATA / 2;

/// The call for what is left.
fn rest(w: &PartialIo, thread: &GuestThread) -> Option<(u64, [u64; 6])> {
    let [fd, buf, len, flags, ..] = w.args;
    if w.receives() {
        // The sender's address was returned already.
        let args = [fd, buf + w.done, len - w.done, flags, 0, 0];
        return Some((w.nr as u64, args));
    }
    let mut mem = BodyMem(thread);
    let (nr, mut args) = sends::rest(w.nr as u64, &w.args, &mut mem, w.done)?;
    args[2] = args[2].min(ASK_MAX);
    Some((nr, args))
}

/// How many bytes the guest wants.
fn wanted(w: &PartialIo, thread: &GuestThread) -> u64 {
    if w.receives() {
        return w.args[2];
    }
    let all = sends::payload(w.nr as u64, &w.args, &mut BodyMem(thread));
    all.unwrap_or(0)
}

/// A reply came; `ret` is its result, `asked` how many bytes home was asked for. `part`: it was interrupted. `None`: home
/// was asked for the rest.
pub fn reply(
    host: &Arc<Host>,
    (thread, id): (&Arc<GuestThread>, u64),
    mut w: PartialIo,
    asked: Option<u64>,
    (part, ret): (bool, i64),
) -> Option<i64> {
    w.asked = asked;
    if w.done == 0 && !part {
        // Nearly always: no part was done before.
        return Some(ret);
    }
    let guest = || match () {
        () if thread.proc.frozen() || is_held(thread, &w) => Guest::Stopped,
        () if signal_is_pending(thread, None) => Guest::Signalled,
        () => Guest::Waits,
    };
    let answer = if part {
        Answer::Interrupted(ret)
    } else {
        Answer::Result(ret)
    };
    match w.next(answer, wanted(&w, thread), guest) {
        Next::Return(ret) => Some(ret),
        Next::AskForRest(w) => ask(host, thread, id, w),
        Next::IssueAgain(done) => {
            lock(&thread.call).done = done;
            Some(ERESTARTNOINTR)
        }
    }
}

/// Whether its connection is about to go directly to another host: home must get no call on it.
fn is_held(thread: &GuestThread, w: &PartialIo) -> bool {
    thread.proc.sockets.get(w.args[0] as i32).is_some()
}

/// A call that the kernel has issued again: if a part of it is done, home is asked for the rest.
pub fn go_on(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> bool {
    let mut st = lock(&thread.call);
    let got = std::mem::take(&mut st.done);
    let again = st.again == Some(n.nr);
    drop(st);
    if got == 0 || !again {
        return false;
    }
    let w = PartialIo {
        nr: n.nr,
        args: n.args,
        done: got,
        asked: None,
    };
    if let Some(ret) = ask(host, thread, n.id, w) {
        host.listener.reply(n.id, ret);
    }
    true
}

/// `Some`: there is nothing left to ask for.
fn ask(host: &Arc<Host>, thread: &Arc<GuestThread>, id: u64, w: PartialIo) -> Option<i64> {
    let rest = rest(&w, thread).and_then(|(nr, args)| {
        let plan = armento_abi::pack(nr, &args, &mut BodyMem(thread), DATA as usize);
        Some((nr, args, plan.ok()?))
    });
    let Some((nr, args, plan)) = rest else {
        return Some(w.done as i64);
    };
    let n = Notice {
        id,
        nr: nr as i32,
        args,
        ..Notice::default()
    };
    post(host, thread, &n, plan, None, 0, Then::PartialIo(w));
    None
}
