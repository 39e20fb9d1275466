//! Connections between two processes of a tree that go directly from host to host.
//!
//! From: `dispatch.rs`, `host/src/home/messages.rs`. Next: `socket_link.rs` (the other host); else home, whose sockets are connected as
//! ever and idle.
//!
//! Reads and writes are answered here. Whatever else needs the connection takes it home first: its host asks home (Recall), and home has
//! from both hosts what no program has read before any later call on it is made.

use super::post::{park, signal_is_pending};
use super::socket_calls::{MSG_CONTROLLEN, MSG_FLAGS, MSG_NAMELEN, touched, transfer};
use super::socket_wait::{Again, again_soon, waits_behind};
use super::{direct, socket_link, socket_polls};
use crate::state::{
    BodyMem, EndState, GuestThread, Host, Phase, Process, Progress, Shared, SocketEnd, SocketLink,
    SocketStream, SocketWait, Special, Transfer, Waiting,
};
use crate::sync::lock;
use crate::threads;
use armento_abi::Mem;
use armento_abi::sends::transfers;
use armento_tracee::notify::Notice;
use armento_tracee::spawn;
use armento_wire::sockets::{EndId, Recall, SOCKET_FRAME_MAX, SOCKET_WINDOW_MAX, SocketNews};
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a freeze looks whether home has all connections.
const LOOK: Duration = Duration::from_micros(50);
/// Frames that may come before home's Go: the other end's window, each frame counted.
const EARLY_MAX: usize = 4096;

/// What has become of a call under the lock of its end.
enum Fate {
    Return(i64),
    /// It waits in a list of the end's.
    Waits,
    /// It waits until all that was posted is made.
    Settles,
    /// Home has to make it.
    Recall,
}

/// Serves a call. `false`: it is to be forwarded. `settled`: what was posted before it is made.
pub fn served(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    settled: bool,
    again: Again,
) -> bool {
    let proc = &thread.proc;
    if proc.sockets.is_empty() {
        return false;
    }
    if transfers(n.nr as u64)
        && let Some(end) = host.sockets.of(proc, n.args[0] as i32)
    {
        return used(host, thread, n, &end, settled, again);
    }
    if socket_polls::is_poll(n.nr.into())
        && let Some(served) = socket_polls::poll(host, thread, n, again)
    {
        return served;
    }
    let what = touched(n, thread);
    let all = proc.sockets.all().into_iter();
    let needed = all.filter(|(fd, _)| what.has(*fd));
    let needed: Vec<_> = needed.filter_map(|(_, id)| host.sockets.get(id)).collect();
    let Some(first) = needed.first() else {
        return false;
    };
    for end in &needed {
        end.give_back(&host.home, Recall::Call);
    }
    waits_behind(host, thread, n, first, again)
}

fn used(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    end: &Arc<SocketEnd>,
    settled: bool,
    again: Again,
) -> bool {
    let Some(special) = Special::begin(&thread.proc) else {
        park(host, thread, n.id);
        return true;
    };
    let mut st = lock(&end.state);
    match st.phase {
        Phase::Meeting => return false,
        Phase::Held | Phase::Returning => {
            drop(st);
            return waits_behind(host, thread, n, end, again);
        }
        Phase::Direct => {}
    }
    let fate = match transfer(n, thread) {
        Some(t) if t.sends && !settled && host.home.posts_pending() => Fate::Settles,
        Some(t) => begin(&mut st, thread, n, t, end),
        None => Fate::Recall,
    };
    let link = st.link.clone();
    drop(st);
    match fate {
        Fate::Return(ret) => {
            count(thread, ret);
            if let Some(link) = link {
                socket_link::pump(host, &link, arrived);
            }
            answer(host, thread, n.id, ret);
        }
        Fate::Waits => {
            if let Some(link) = link {
                socket_link::pump(host, &link, arrived);
            }
            end_if_signalled(host, thread, end, n.id);
        }
        Fate::Settles => direct::settle(host, thread, n),
        Fate::Recall => {
            end.give_back(&host.home, Recall::Call);
            drop(special);
            return waits_behind(host, thread, n, end, again);
        }
    }
    true
}

fn count(thread: &GuestThread, ret: i64) {
    let mut files = lock(&thread.proc.files);
    files.messages += 1;
    files.message_bytes += u64::try_from(ret).unwrap_or(0);
}

fn answer(shared: &Shared, thread: &GuestThread, id: u64, ret: i64) {
    let mut call = lock(&thread.call);
    (call.again, call.slept, call.at_deputy) = (None, false, false);
    drop(call);
    shared.listener.reply(id, ret);
}

/// A signal that was queued before the call was noted as waiting ends it, too.
fn end_if_signalled(host: &Arc<Host>, thread: &Arc<GuestThread>, end: &Arc<SocketEnd>, id: u64) {
    let mut call = lock(&thread.call);
    let queued = thread.proc.signals_queued.load(Ordering::SeqCst);
    let new = std::mem::replace(&mut call.signals, queued) != queued;
    drop(call);
    if new && signal_is_pending(thread, None) {
        let (thread, end) = (thread.clone(), end.id);
        host.tracer
            .post(move |guests| threads::end_socket_wait(guests, &thread, end, id));
    }
}

/// A call comes to an end in the direct phase.
fn begin(
    st: &mut EndState,
    thread: &Arc<GuestThread>,
    n: &Notice,
    transfer: Transfer,
    end: &Arc<SocketEnd>,
) -> Fate {
    let mut call = lock(&thread.call);
    // A part was done before the kernel issued it again.
    let before = std::mem::take(&mut call.done);
    let before = if call.again == Some(n.nr) { before } else { 0 };
    drop(call);
    if transfer.len == 0 {
        return Fate::Return(0);
    }
    let waits = !st.nonblocking && !transfer.dont_wait;
    let mut wait = SocketWait {
        thread: thread.clone(),
        notice: *n,
        transfer,
        done: before,
    };
    let first = match wait.transfer.sends {
        true => st.writers.is_empty(),
        false => st.readers.is_empty(),
    };
    let moved = match first {
        true => advance(st, &mut wait),
        false => Ok(()),
    };
    if moved.is_err() {
        // Home's kernel finds the error, behind what is done.
        if wait.done > 0 {
            let mut call = lock(&thread.call);
            (call.done, call.again) = (wait.done, Some(n.nr));
        }
        return Fate::Recall;
    }
    if is_over(&wait) {
        return Fate::Return(wait.done as i64);
    }
    if !waits {
        return Fate::Return(match wait.done {
            0 => -i64::from(libc::EAGAIN),
            some => some as i64,
        });
    }
    lock(&thread.call).waiting = Some(Waiting::Socket {
        id: n.id,
        end: end.id,
    });
    match wait.transfer.sends {
        true => st.writers.push_back(wait),
        false => st.readers.push_back(wait),
    }
    Fate::Waits
}

/// Whether a call has all that it waits for.
fn is_over(w: &SocketWait) -> bool {
    match w.transfer.sends || w.transfer.whole {
        true => w.done >= w.transfer.len,
        false => w.done > 0,
    }
}

/// The guest's memory is not there.
struct Unreachable;

/// Moves as many bytes of a call as can be moved now.
fn advance(st: &mut EndState, w: &mut SocketWait) -> Result<(), Unreachable> {
    let EndState { stream, link, .. } = st;
    let (Some(stream), Some(link)) = (stream.as_mut(), link.as_ref()) else {
        return Ok(());
    };
    match w.transfer.sends {
        true => send(stream, link, w),
        false => receive(stream, link, w),
    }
}

fn send(
    stream: &mut SocketStream,
    link: &SocketLink,
    w: &mut SocketWait,
) -> Result<(), Unreachable> {
    while w.done < w.transfer.len {
        let some = (w.transfer.len - w.done)
            .min(stream.room())
            .min(SOCKET_FRAME_MAX as u64);
        if some == 0 {
            break;
        }
        let mut bytes = Vec::with_capacity(some as usize);
        let mut mem = BodyMem(&w.thread);
        for (addr, len) in range(&w.transfer.pieces, w.done, some) {
            let at = bytes.len();
            bytes.resize(at + len as usize, 0);
            mem.read(addr, &mut bytes[at..]).map_err(|_| Unreachable)?;
        }
        let told = stream.send(&bytes);
        link.push(told, bytes);
        w.done += some;
    }
    Ok(())
}

fn receive(
    stream: &mut SocketStream,
    link: &SocketLink,
    w: &mut SocketWait,
) -> Result<(), Unreachable> {
    let some = (w.transfer.len - w.done).min(stream.waiting());
    if some == 0 {
        return Ok(());
    }
    let bytes = stream.peek(some);
    let mut rest = &bytes[..];
    for (addr, len) in range(&w.transfer.pieces, w.done, some) {
        let (now, later) = rest.split_at(rest.len().min(len as usize));
        if !w.thread.write(addr, now) {
            return Err(Unreachable);
        }
        rest = later;
    }
    if let Some(header) = w.transfer.header {
        // KERNEL: recvmsg(2): no name, no ancillary data, no flags.
        let fields = [(MSG_NAMELEN, 4), (MSG_CONTROLLEN, 8), (MSG_FLAGS, 4)];
        for (at, len) in fields {
            if !w.thread.write(header.wrapping_add(at), &[0; 8][..len]) {
                return Err(Unreachable);
            }
        }
    }
    w.done += some;
    if !w.transfer.peeks {
        stream.read(some);
        if let Some(told) = stream.must_tell() {
            link.push(told, Vec::new());
        }
    }
    Ok(())
}

/// The pieces of `len` bytes behind the first `skip`.
fn range(pieces: &[(u64, u64)], mut skip: u64, mut len: u64) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    for (addr, size) in pieces {
        let gone = skip.min(*size);
        skip -= gone;
        let some = (size - gone).min(len);
        if some > 0 {
            out.push((addr.wrapping_add(gone), some));
        }
        len -= some;
    }
    out
}

/// A frame came from the other end.
pub fn arrived(host: &Arc<Host>, end: &Arc<SocketEnd>, told: Progress, bytes: &[u8]) {
    let mut st = lock(&end.state);
    match st.phase {
        Phase::Direct => {}
        // The other end's host heard Go earlier.
        Phase::Meeting | Phase::Held => {
            let sum: usize = st.early.iter().map(|(_, b)| b.len()).sum();
            if st.early.len() >= EARLY_MAX || sum + bytes.len() > SOCKET_WINDOW_MAX as usize {
                drop(st);
                return end.give_back(&host.home, Recall::Link);
            }
            st.early.push((told, bytes.to_vec()));
            return;
        }
        // The other end has it still.
        Phase::Returning => return,
    }
    let fine = take_in(&mut st, told, bytes);
    finish(host, end, st, fine);
}

fn take_in(st: &mut EndState, told: Progress, bytes: &[u8]) -> bool {
    let Some(stream) = st.stream.as_mut() else {
        return false;
    };
    stream.heard(told).is_ok() && stream.came(bytes).is_ok()
}

/// Serves those that wait, as far as that goes, and tells the other end.
fn finish(
    host: &Arc<Host>,
    end: &Arc<SocketEnd>,
    mut st: std::sync::MutexGuard<'_, EndState>,
    mut fine: bool,
) {
    let mut over = Vec::new();
    if fine {
        let EndState { stream, link, .. } = &mut *st;
        if let (Some(stream), Some(link)) = (stream, link)
            && let Some(told) = stream.must_tell()
        {
            link.push(told, Vec::new());
        }
        fine = serve_waiting(host, &mut st, &mut over);
    }
    let link = st.link.clone();
    st.pollers.retain(|(_, w)| !w.over.load(Ordering::Acquire));
    let pollers = st.pollers.clone();
    drop(st);
    for (thread, id, ret) in over {
        count(&thread, ret);
        answer(host, &thread, id, ret);
    }
    for (thread, watch) in pollers {
        socket_polls::wake(host, &thread, &watch);
    }
    match (fine, link) {
        (true, Some(link)) => socket_link::pump(host, &link, arrived),
        _ => end.give_back(&host.home, Recall::Link),
    }
}

type Over = Vec<(Arc<GuestThread>, u64, i64)>;

/// False: a call has to be made at home.
fn serve_waiting(shared: &Shared, st: &mut EndState, over: &mut Over) -> bool {
    for sends in [false, true] {
        loop {
            let list = if sends {
                &mut st.writers
            } else {
                &mut st.readers
            };
            let Some(mut w) = list.pop_front() else { break };
            let before = w.done;
            let moved = advance(st, &mut w);
            if moved.is_err() {
                let known = shared.threads.here(w.thread.here);
                if known.is_none_or(|t| !Arc::ptr_eq(&t, &w.thread)) {
                    // It has ended meanwhile.
                    continue;
                }
            }
            if moved.is_ok() && is_over(&w) {
                lock(&w.thread.call).waiting = None;
                over.push((w.thread, w.notice.id, w.done as i64));
                continue;
            }
            let goes_on = moved.is_ok() && w.done > before;
            let list = if sends {
                &mut st.writers
            } else {
                &mut st.readers
            };
            list.push_front(w);
            if moved.is_err() {
                return false;
            }
            if !goes_on {
                break;
            }
        }
    }
    true
}

/// Home orders calls on an end to wait. Not in the thread that hears home: calls that are being taken up are waited for.
pub fn hold(host: &Arc<Host>, id: EndId) {
    let Some(end) = host.sockets.get(id) else {
        return;
    };
    let host = host.clone();
    spawn::soon("hold", move || {
        // Those that saw it before are sent when this is ours.
        let all = end.proc.taking_up.write();
        let held = {
            let mut st = lock(&end.state);
            let held = st.phase == Phase::Meeting;
            if held {
                st.phase = Phase::Held;
            }
            held
        };
        drop(all);
        if held {
            host.home
                .send(&ToHome::Socket(SocketNews::Held { end: id }));
        }
    });
}

/// What home gives to an end that is direct from now on.
pub struct Start {
    pub window: u32,
    pub first: Vec<u8>,
    pub theirs: u32,
    pub nonblocking: bool,
}

pub fn go(host: &Arc<Host>, id: EndId, start: Start, again: Again) {
    let Some(end) = host.sockets.get(id) else {
        return;
    };
    let mut st = lock(&end.state);
    let window = u64::from(start.window.min(SOCKET_WINDOW_MAX));
    st.stream = Some(SocketStream::new(window, &start.first, start.theirs.into()));
    st.nonblocking = start.nonblocking;
    if st.phase != Phase::Held {
        // It returns already, with these bytes.
        return;
    }
    st.phase = Phase::Direct;
    let early = std::mem::take(&mut st.early);
    let fine = early.into_iter().all(|(t, b)| take_in(&mut st, t, &b));
    let behind = std::mem::take(&mut st.behind);
    finish(host, &end, st, fine);
    again_soon(host, behind, again);
}

/// Home takes a connection back: it gets all that this end has.
pub fn end(host: &Arc<Host>, id: EndId) {
    let Some(end) = host.sockets.get(id) else {
        return;
    };
    let host = host.clone();
    spawn::soon("end", move || {
        let mut st = lock(&end.state);
        end.stop(&host.home, &mut st);
        let r = st
            .stream
            .as_ref()
            .map(SocketStream::remains)
            .unwrap_or_default();
        drop(st);
        host.home.send(&ToHome::Socket(SocketNews::Ended {
            end: id,
            sent: r.sent,
            tail: r.tail,
            received: r.received,
            unread: r.unread,
        }));
    });
}

/// Home has it: calls are forwarded.
pub fn home(host: &Arc<Host>, id: EndId, again: Again) {
    let Some(end) = host.sockets.get(id) else {
        return;
    };
    let mut st = lock(&end.state);
    end.stop(&host.home, &mut st);
    host.sockets.remove(&end);
    let (behind, link) = (std::mem::take(&mut st.behind), st.link.take());
    drop(st);
    if let Some(link) = link {
        link.close();
    }
    again_soon(host, behind, again);
}

/// For a move: home has all connections of the process, within the time. Before: it is marked as frozen.
pub fn end_sockets(shared: &Shared, proc: &Process, until: Instant) -> bool {
    loop {
        if proc.sockets.is_empty() {
            return true;
        }
        shared
            .sockets
            .give_back_all(&shared.home, proc, Recall::Moves);
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_scattered_memory_are_found() {
        let pieces = [(100, 10), (200, 0), (300, 5)];
        assert_eq!(range(&pieces, 0, 15), [(100, 10), (300, 5)]);
        assert_eq!(range(&pieces, 4, 3), [(104, 3)]);
        assert_eq!(range(&pieces, 8, 4), [(108, 2), (300, 2)]);
        assert_eq!(range(&pieces, 15, 1), []);
    }
}
