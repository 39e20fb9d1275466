//! poll, ppoll, select and pselect6 of connections that go directly to another host, alone or among others.
//!
//! From: `sockets.rs`. What is ready here is answered here. Otherwise home polls the other descriptors, with the time limit, as a poll(2)
//! without those that are direct; whichever is ready first ends both.

use super::post::post;
use super::socket_wait::{Again, waits_behind};
use crate::state::{
    BodyMem, GuestThread, Host, Phase, PollForm, PollWatch, Polled, Shared, SocketEnd, Then,
    Waiting, end_poll,
};
use crate::sync::lock;
use armento_abi::{Fault, Mem};
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use armento_wire::sockets::EndId;
use armento_wire::talk::ToHome;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Descriptors that are looked at; a call with more takes all connections home.
const POLLED_MAX: u64 = 4096;
/// sizeof(struct pollfd), and where its results are.
const POLLFD: u64 = 8;
const REVENTS: u64 = 6;
/// Answers from what is ready here alone, while others were asked for, too; then home is asked again.
const ALONE_MAX: u32 = 8;
/// Where the array of a poll for home lies that is no part of the guest's memory.
const ARRAY: u64 = 1 << 16;

const READS: i16 = libc::POLLIN | libc::POLLRDNORM;
const WRITES: i16 = libc::POLLOUT | libc::POLLWRNORM;

pub fn is_poll(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_poll | libc::SYS_ppoll | libc::SYS_select | libc::SYS_pselect6
    )
}

/// What a call polls. `None`: home is to say what is wrong with it, or its signal mask is not the thread's own.
pub fn polled(n: &Notice, thread: &GuestThread) -> Option<Polled> {
    let mut mem = BodyMem(thread);
    let nr = i64::from(n.nr);
    let [first, second, third, fourth, fifth, sixth] = n.args;
    let (limit_at, unit_ns) = match nr {
        libc::SYS_ppoll => (third, 1),
        libc::SYS_select => (fifth, 1000),
        libc::SYS_pselect6 => (fifth, 1),
        _ => (0, 1),
    };
    let mask = match nr {
        libc::SYS_ppoll => fourth,
        libc::SYS_pselect6 if sixth != 0 => word(&mut mem, sixth)?,
        _ => 0,
    };
    if mask != 0 {
        return None;
    }
    let limit = match (nr, limit_at) {
        (libc::SYS_poll, _) => {
            let ms = u64::try_from(third as i32).ok();
            ms.map(Duration::from_millis)
        }
        (_, 0) => None,
        (_, at) => {
            let seconds = word(&mut mem, at)?;
            let parts = word(&mut mem, at.checked_add(8)?)?.checked_mul(unit_ns)?;
            // Others are refused: home does that.
            if seconds > i32::MAX as u64 || parts >= 1_000_000_000 {
                return None;
            }
            Some(Duration::new(seconds, parts as u32))
        }
    };
    let (set, form) = match nr {
        libc::SYS_poll | libc::SYS_ppoll => {
            let count = u64::from(second as u32);
            (count <= POLLED_MAX).then_some(())?;
            let mut raw = vec![0u8; (count * POLLFD) as usize];
            mem.read(first, &mut raw).ok()?;
            let entry = |e: &[u8]| {
                let fd = i32::from_le_bytes([e[0], e[1], e[2], e[3]]);
                (fd, i16::from_le_bytes([e[4], e[5]]))
            };
            let set = raw.chunks_exact(POLLFD as usize).map(entry).collect();
            (set, PollForm::Array(first))
        }
        _ => {
            let count = u64::from(first as u32);
            (count <= POLLED_MAX).then_some(())?;
            let sets = [second, third, fourth];
            let mut events = vec![0i16; count as usize];
            for (at, kind) in sets
                .iter()
                .zip([libc::POLLIN, libc::POLLOUT, libc::POLLPRI])
            {
                if *at == 0 {
                    continue;
                }
                let mut raw = vec![0u8; set_len(count)];
                mem.read(*at, &mut raw).ok()?;
                for (fd, e) in events.iter_mut().enumerate() {
                    if raw[fd / 8] & 1 << (fd % 8) != 0 {
                        *e |= kind;
                    }
                }
            }
            let all = events.iter().enumerate().filter(|(_, e)| **e != 0);
            let set = all.map(|(fd, e)| (fd as i32, *e)).collect();
            (set, PollForm::Sets(count, sets))
        }
    };
    Some(Polled {
        nr: n.nr,
        set,
        form,
        limit,
        rest_at: (limit_at != 0).then_some((limit_at, unit_ns)),
    })
}

/// Bytes of a set of so many descriptors. KERNEL: FDS_BYTES: whole longs.
fn set_len(count: u64) -> usize {
    count.div_ceil(64) as usize * 8
}

fn word(mem: &mut BodyMem<'_>, at: u64) -> Option<u64> {
    let mut raw = [0u8; 8];
    mem.read(at, &mut raw).ok()?;
    Some(u64::from_le_bytes(raw))
}

/// What an end is ready for, of what is asked.
fn ready(end: &SocketEnd, events: i16) -> i16 {
    let st = lock(&end.state);
    match (&st.stream, st.phase) {
        (Some(s), Phase::Direct) => {
            let reads = if s.waiting() > 0 { READS } else { 0 };
            let writes = if s.is_writable() { WRITES } else { 0 };
            events & (reads | writes)
        }
        _ => 0,
    }
}

/// Serves a poll of connections some of which are direct. `None`: none is, or it is not served here.
pub fn poll(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice, again: Again) -> Option<bool> {
    let sockets = &thread.proc.sockets;
    let p = polled(n, thread)?;
    let end_of = |(fd, _): &(i32, i16)| sockets.get(*fd);
    let mut ends: Vec<Option<EndId>> = p.set.iter().map(end_of).collect();
    for end in &mut ends {
        let Some(e) = end.and_then(|id| host.sockets.get(id)) else {
            *end = None;
            continue;
        };
        let phase = lock(&e.state).phase;
        match phase {
            Phase::Direct => {}
            Phase::Meeting => *end = None,
            Phase::Held | Phase::Returning => {
                return Some(waits_behind(host, thread, n, &e, again));
            }
        }
    }
    if ends.iter().all(Option::is_none) {
        return Some(false);
    }
    let watch = Arc::new(PollWatch::new(p, ends));
    let revents = here(host, &watch);
    let some = revents.iter().any(|e| *e != 0);
    let others = watch.others().next().is_some();
    let mut call = lock(&thread.call);
    let alone = some && (!others || call.polled_alone < ALONE_MAX);
    call.polled_alone = if alone { call.polled_alone + 1 } else { 0 };
    drop(call);
    if alone || !others && watch.polled.limit == Some(Duration::ZERO) {
        answer(host, thread, n.id, &watch, &revents);
        return Some(true);
    }
    ask_home(host, thread, n, watch, some);
    Some(true)
}

/// What is ready here.
fn here(shared: &Shared, w: &PollWatch) -> Vec<i16> {
    let pairs = w.polled.set.iter().zip(&w.ends);
    pairs
        .map(|((_, events), end)| {
            let end = end.and_then(|id| shared.sockets.get(id));
            end.map_or(0, |e| ready(&e, *events))
        })
        .collect()
}

fn answer(shared: &Shared, thread: &GuestThread, id: u64, w: &PollWatch, revents: &[i16]) {
    let ret = write_results(thread, w, revents);
    let mut call = lock(&thread.call);
    (call.again, call.slept, call.at_deputy) = (None, false, false);
    drop(call);
    shared.listener.reply(id, ret);
}

/// Writes the results where the guest wants them. Returns its call's result.
fn write_results(thread: &GuestThread, w: &PollWatch, revents: &[i16]) -> i64 {
    const EFAULT: i64 = -(libc::EFAULT as i64);
    write_rest(thread, w);
    match w.polled.form {
        PollForm::Array(at) => {
            for (i, e) in (0u64..).zip(revents) {
                if !thread.write(at + i * POLLFD + REVENTS, &e.to_le_bytes()) {
                    return EFAULT;
                }
            }
            revents.iter().filter(|e| **e != 0).count() as i64
        }
        PollForm::Sets(count, sets) => {
            // KERNEL: select(2): POLLIN_SET, POLLOUT_SET, POLLEX_SET of fs/select.c.
            let kinds = [
                (libc::POLLIN, READS | libc::POLLHUP | libc::POLLERR),
                (libc::POLLOUT, WRITES | libc::POLLERR),
                (libc::POLLPRI, libc::POLLPRI),
            ];
            let mut found = 0;
            for (at, (asked, shows)) in sets.iter().zip(kinds) {
                if *at == 0 {
                    continue;
                }
                let mut raw = vec![0u8; set_len(count)];
                for ((fd, events), e) in w.polled.set.iter().zip(revents) {
                    if events & asked != 0 && e & shows != 0 {
                        raw[*fd as usize / 8] |= 1 << (fd % 8);
                        found += 1;
                    }
                }
                if !thread.write(*at, &raw) {
                    return EFAULT;
                }
            }
            found
        }
    }
}

/// KERNEL: select(2), ppoll(2) as calls: what is left of the time is written back; a fault there is no error.
fn write_rest(thread: &GuestThread, w: &PollWatch) {
    let (Some((at, unit_ns)), Some(limit)) = (w.polled.rest_at, w.polled.limit) else {
        return;
    };
    let left = limit.saturating_sub(w.begun.elapsed());
    let parts = u64::from(left.subsec_nanos()) / unit_ns;
    let raw = [left.as_secs().to_le_bytes(), parts.to_le_bytes()].concat();
    let _ = thread.write(at, &raw);
}

/// Memory of a guest with an array of ours in it.
struct WithArray<'a>(BodyMem<'a>, Vec<u8>);

impl Mem for WithArray<'_> {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        match self.read_some(addr, buf) == buf.len() {
            true => Ok(()),
            false => Err(Fault),
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        let at = addr
            .checked_sub(ARRAY)
            .and_then(|at| usize::try_from(at).ok());
        let ours = at.and_then(|at| self.1.get(at..)).unwrap_or_default();
        if ours.is_empty() {
            return self.0.read_some(addr, buf);
        }
        let n = ours.len().min(buf.len());
        buf[..n].copy_from_slice(&ours[..n]);
        n
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.0.write(addr, data)
    }
}

/// Home polls the others. `some`: it must not wait.
fn ask_home(
    host: &Arc<Host>,
    thread: &Arc<GuestThread>,
    n: &Notice,
    watch: Arc<PollWatch>,
    some: bool,
) {
    let mut array = Vec::new();
    for (fd, events) in watch.others() {
        array.extend_from_slice(&fd.to_le_bytes());
        array.extend_from_slice(&events.to_le_bytes());
        array.extend_from_slice(&[0; 2]);
    }
    let ms = match watch.polled.limit {
        _ if some => 0,
        None => -1,
        Some(limit) => limit.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32,
    };
    let count = array.len() as u64 / POLLFD;
    let at = if count == 0 { 0 } else { ARRAY };
    let args = [at, count, ms as u64, 0, 0, 0];
    let mut mem = WithArray(BodyMem(thread), array);
    let Ok(plan) = armento_abi::pack(libc::SYS_poll as u64, &args, &mut mem, DATA as usize) else {
        host.listener.reply(n.id, -i64::from(libc::ENOMEM));
        return;
    };
    let direct = || {
        let ids = watch.ends.iter().flatten();
        ids.map(|id| host.sockets.get(*id))
    };
    for end in direct().flatten() {
        let mut st = lock(&end.state);
        st.pollers.retain(|(_, w)| !w.over.load(Ordering::Acquire));
        st.pollers.push((thread.clone(), watch.clone()));
    }
    post(host, thread, n, plan, None, 0, Then::Polled(watch.clone()));
    // It may have become ready, or have been called home, before it was noted as waiting.
    wake(host, thread, &watch);
    let returns =
        |e: Option<Arc<SocketEnd>>| e.is_none_or(|e| lock(&e.state).phase != Phase::Direct);
    if direct().any(returns) {
        end_poll(&host.home, thread, &watch);
    }
}

/// Ends a poll if something is ready here.
pub fn wake(shared: &Shared, thread: &GuestThread, watch: &Arc<PollWatch>) {
    if watch.over.load(Ordering::Acquire) {
        return;
    }
    let revents = here(shared, watch);
    if revents.iter().all(|e| *e == 0) {
        return;
    }
    let (id, seq) = {
        let mut call = lock(&thread.call);
        let (id, seq) = match &call.waiting {
            Some(Waiting::Call {
                id,
                seq,
                then: Then::Polled(w),
                ..
            }) if Arc::ptr_eq(w, watch) => (*id, *seq),
            _ => return,
        };
        call.waiting = None;
        call.sent = None;
        (id, seq)
    };
    watch.over.store(true, Ordering::Release);
    // Before the thread's next call.
    shared.home.send(&ToHome::Nudge {
        tid: thread.tid,
        seq,
    });
    answer(shared, thread, id, watch, &revents);
}

/// Home's poll has ended by itself. Returns the guest's result.
pub fn answered(
    shared: &Shared,
    thread: &GuestThread,
    watch: &PollWatch,
    ret: i64,
    outs: &[u8],
) -> i64 {
    watch.over.store(true, Ordering::Release);
    if ret < 0 {
        return ret;
    }
    let mut revents = here(shared, watch);
    let theirs = outs.chunks_exact(POLLFD as usize);
    let mut theirs = theirs.map(|e| i16::from_le_bytes([e[6], e[7]]));
    for ((fd, _), (end, e)) in watch
        .polled
        .set
        .iter()
        .zip(watch.ends.iter().zip(&mut revents))
    {
        if end.is_none() && *fd >= 0 {
            *e = theirs.next().unwrap_or(0);
        }
    }
    // KERNEL: select(2): EBADF, where poll shows POLLNVAL.
    if matches!(watch.polled.form, PollForm::Sets(..))
        && revents.iter().any(|e| e & libc::POLLNVAL != 0)
    {
        return -i64::from(libc::EBADF);
    }
    write_results(thread, watch, &revents)
}

/// Home's poll was interrupted, and the guest issues its call again.
pub fn interrupted(thread: &GuestThread, watch: &PollWatch) {
    watch.over.store(true, Ordering::Release);
    write_rest(thread, watch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Process;
    use armento_model::{HomePid, HomeTid};

    fn thread() -> Arc<GuestThread> {
        let (pid, tid) = (HomePid::of_home(7), HomeTid::of_home(7));
        let here = std::process::id() as i32;
        GuestThread::new(pid, tid, here, Arc::new(Process::default()))
    }

    fn of(nr: i64, args: [u64; 6]) -> Option<Polled> {
        let n = Notice {
            nr: nr as i32,
            args,
            ..Notice::default()
        };
        polled(&n, &thread())
    }

    #[test]
    fn all_forms_of_polls_are_read() {
        let set = [
            (5i32, libc::POLLIN, 0i16),
            (-1, libc::POLLIN, 0),
            (9, libc::POLLOUT, 0),
        ];
        let at = set.as_ptr() as u64;
        let p = of(libc::SYS_poll, [at, 3, 20, 0, 0, 0]).expect("a poll");
        assert_eq!(
            p.set,
            [(5, libc::POLLIN), (-1, libc::POLLIN), (9, libc::POLLOUT)]
        );
        assert_eq!(
            (p.limit, p.rest_at),
            (Some(Duration::from_millis(20)), None)
        );
        let for_ever = of(libc::SYS_poll, [at, 3, u64::from(u32::MAX), 0, 0, 0]);
        assert_eq!(for_ever.expect("a poll").limit, None);
        let time = [1u64, 5];
        let t = time.as_ptr() as u64;
        let p = of(libc::SYS_ppoll, [at, 1, t, 0, 8, 0]).expect("a ppoll");
        assert_eq!(
            (p.limit, p.rest_at),
            (Some(Duration::new(1, 5)), Some((t, 1)))
        );
        assert!(
            of(libc::SYS_ppoll, [at, 1, t, at, 8, 0]).is_none(),
            "its own mask"
        );
        let (reads, writes) = ([1u64 << 5, 1], [1u64 << 5, 0]);
        let sets = [65, reads.as_ptr() as u64, writes.as_ptr() as u64, 0, t, 0];
        let p = of(libc::SYS_select, sets).expect("a select");
        assert_eq!(
            p.set,
            [(5, libc::POLLIN | libc::POLLOUT), (64, libc::POLLIN)]
        );
        assert_eq!(p.limit, Some(Duration::new(1, 5000)));
    }

    #[test]
    fn results_lie_where_the_guest_wants_them() {
        let mut set = [(5i32, libc::POLLIN, 7i16), (6, libc::POLLIN, 7)];
        let at = set.as_mut_ptr() as u64;
        let t = thread();
        let watch = |p: Polled| PollWatch::new(p, vec![None, None]);
        let w = watch(of(libc::SYS_poll, [at, 2, 0, 0, 0, 0]).expect("a poll"));
        assert_eq!(write_results(&t, &w, &[0, libc::POLLIN]), 1);
        assert_eq!((set[0].2, set[1].2), (0, libc::POLLIN));
        let mut reads = [1u64 << 5 | 1 << 6];
        let sets = [7, reads.as_mut_ptr() as u64, 0, 0, 0, 0];
        let w = watch(of(libc::SYS_select, sets).expect("a select"));
        assert_eq!(write_results(&t, &w, &[libc::POLLIN, 0]), 1);
        assert_eq!(reads, [1 << 5]);
    }
}
