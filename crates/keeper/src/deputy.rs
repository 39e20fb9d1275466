//! One deputy thread: its slot, what it is doing, and the thread of ours that waits for it.
//!
//! ```text
//! idle ──submit──► posted ──(deputy's loop)──► done ──waiter──► reply sent, next in the queue posted
//! ```

use crate::cpu::{self, Books, Results};
use crate::keep::lock;
use crate::links::HostLink;
use armento_abi::{Out, Packed, out_len, sends};
use armento_migrate::image::thread::ERESTARTNOINTR;
use armento_model::{Pid, Tid};
use armento_tracee::region::Slot;
use armento_tracee::{patience, slice};
use armento_wire::call::{self, Call};
use armento_wire::talk::ToHost;
use armento_wire::write_frame;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// ERESTARTNOINTR: not executed, issue it again.
pub const AGAIN: i64 = ERESTARTNOINTR;
/// Most calls that may wait for one deputy: its body has one at a time, the rest is our own housekeeping.
const QUEUE_MAX: usize = 4096;
/// Most bytes of results with which the thread that brought a call answers it, too: two pages, which a link that
/// [`HostLink::takes_more`] takes at once.
const SHORT: usize = 8 << 10;
/// How long a call of ours may wait behind a call of the body.
const OWN_MAX: Duration = Duration::from_secs(30);

/// Hears what a part of a call said and wrote.
pub type Done = Box<dyn FnOnce(i64, Vec<u8>) + Send>;

/// Something for the deputy to do.
pub enum Work {
    Call(Box<Call>),
    /// A part of a call that we make in several: it is not turned back, and its result is ours.
    Part {
        call: Box<Call>,
        done: Done,
    },
    /// A call of our own that somebody waits for.
    Own {
        nr: i64,
        args: [u64; 6],
        done: Sender<i64>,
    },
    /// Housekeeping of memory that nobody uses just now: may be forgotten.
    Tidy {
        nr: i64,
        args: [u64; 6],
        done: Sender<i64>,
    },
    /// The end of the thread or process: never forgotten, before any housekeeping.
    End {
        nr: i64,
        code: u64,
    },
    /// A clone: the child's slot, and whom to tell.
    Clone {
        flags: u64,
        child: Box<Slot>,
        done: Sender<(i64, Box<Slot>)>,
    },
}

enum Doing {
    Call {
        seq: u32,
        outs: Vec<Out>,
        nr: u16,
        args: [u64; 6],
        /// How many bytes it is to put, if it is such a call.
        payload: Option<u64>,
        /// We interrupted it when it had put a part of them.
        cut: bool,
    },
    Part(Vec<Out>, Done),
    Own(Option<Sender<i64>>),
    Clone(Box<Slot>, Sender<(i64, Box<Slot>)>),
}

#[derive(Default)]
struct State {
    doing: Option<Doing>,
    queue: VecDeque<Work>,
    /// When the call that is being restarted was to end.
    deadline: Option<Instant>,
    /// The thread's restart block was set by a call that we ran for the body: number and deadline.
    block: Option<(u16, Option<Instant>)>,
    /// Where in the slot that call's results come to lie, whoever continues it.
    results: Vec<Out>,
    /// Addresses of the program that the deputy's restart block writes to: copied to the body.
    kept: Option<(u64, usize)>,
}

/// What the deputies of one process share with the hand.
#[derive(Clone)]
pub struct Common {
    /// Calls from the body are turned back: a move is under way.
    pub breaking: Arc<AtomicBool>,
    /// It is on its way home: its pages come by themselves.
    pub coming: Arc<AtomicBool>,
    pub calls: Arc<AtomicU64>,
    /// Signals that it reads from descriptors. KERNEL: signalfd(2).
    pub signalfds: Arc<AtomicU64>,
    /// The tree's.
    pub cpu: Arc<Books>,
}

pub struct Deputy {
    pub tid: Tid,
    pub pid: Pid,
    pub slot: Slot,
    st: Mutex<State>,
    link: Mutex<Arc<HostLink>>,
    pub common: Common,
    closed: AtomicBool,
    /// The slice of its own, while it has a short one: it serves its body.
    slice: Mutex<Option<u64>>,
}

impl Deputy {
    /// Makes a deputy's record and starts its waiter. `parent`: the deputy that it was cloned from.
    pub fn start(
        tid: Tid,
        pid: Pid,
        slot: Slot,
        link: Arc<HostLink>,
        common: Common,
        kept: Option<(u64, usize)>,
        parent: Option<&Deputy>,
    ) -> Arc<Deputy> {
        // A child has its parent's slice already. KERNEL: sched_fork.
        let inherited = parent.and_then(|p| *lock(&p.slice));
        let own = inherited.or_else(|| slice::shorten(tid));
        let st = Mutex::new(State {
            kept,
            ..State::default()
        });
        let d = Arc::new(Deputy {
            tid,
            pid,
            slot,
            st,
            link: Mutex::new(link),
            common,
            closed: AtomicBool::new(false),
            slice: Mutex::new(own),
        });
        let me = d.clone();
        let built = std::thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || me.wait_loop());
        if built.is_err() {
            // Without its waiter a deputy is mute: better a clear end than a hang.
            std::process::abort();
        }
        d
    }

    pub fn link(&self) -> Arc<HostLink> {
        lock(&self.link).clone()
    }

    pub fn set_link(&self, l: &Arc<HostLink>) {
        *lock(&self.link) = l.clone();
    }

    /// From now on it is scheduled as the program would be.
    pub fn own_slice(&self) {
        if let Some(old) = lock(&self.slice).take() {
            slice::restore(self.tid, old);
        }
    }

    /// The deputy is no more; its waiter ends.
    pub fn close(&self) {
        self.own_slice();
        self.closed.store(true, Ordering::Release);
        self.slot.fail(AGAIN);
    }

    /// Is a call of the body being executed (or about to be)?
    pub fn in_call(&self) -> bool {
        matches!(lock(&self.st).doing, Some(Doing::Call { .. }))
    }

    /// Ends a call of the body that the deputy has not seen; false when there is none.
    pub fn turn_back(&self, result: impl Fn(u16) -> i64) -> bool {
        let st = lock(&self.st);
        match st.doing {
            Some(Doing::Call { nr, .. }) if self.slot.retract() => {
                self.slot.fail(result(nr));
                true
            }
            _ => false,
        }
    }

    /// Is it still at this call of the body?
    pub fn at_call(&self, number: u32) -> bool {
        matches!(lock(&self.st).doing, Some(Doing::Call { seq, .. }) if seq == number)
    }

    /// Takes back a call of the body that waits behind something of ours.
    pub fn recall(&self, which: impl Fn(&Call) -> bool) -> Option<Box<Call>> {
        let mut st = lock(&self.st);
        let at = st
            .queue
            .iter()
            .position(|w| matches!(w, Work::Call(c) if which(c)))?;
        match st.queue.remove(at) {
            Some(Work::Call(c)) => Some(c),
            _ => None,
        }
    }

    /// The call of its body under way, its numbers as the body passed them.
    pub fn call(&self) -> Option<(i64, [u64; 6])> {
        match &lock(&self.st).doing {
            Some(Doing::Call { nr, args, .. }) => Some((i64::from(*nr), *args)),
            _ => None,
        }
    }

    /// Its call was interrupted, and has `put` so many bytes. True when it would have waited for the rest: its body will.
    pub fn cut_short(&self, put: u64) -> bool {
        match &mut lock(&self.st).doing {
            Some(Doing::Call {
                args, payload, cut, ..
            }) => {
                let part = payload.is_some_and(|all| put < all);
                *cut = part && patience::waits(self.pid, args[0] as i32);
                *cut
            }
            _ => false,
        }
    }

    /// Number of the call under way, for its restart rule.
    pub fn call_nr(&self) -> Option<u16> {
        match lock(&self.st).doing {
            Some(Doing::Call { nr, .. }) => Some(nr),
            _ => None,
        }
    }

    /// When the call that its body issues again is to end.
    pub fn deadline(&self) -> Option<Instant> {
        lock(&self.st).deadline
    }

    pub fn block(&self) -> Option<(u16, Option<Instant>)> {
        lock(&self.st).block
    }

    pub fn submit(&self, w: Work) {
        let mut st = lock(&self.st);
        if st.doing.is_none() && st.queue.is_empty() {
            self.begin(&mut st, w);
            drop(st);
            self.slot.wake();
            return;
        }
        // A body's call goes before our housekeeping.
        match w {
            Work::Call(_) | Work::Part { .. } | Work::End { .. } => st.queue.push_front(w),
            w if st.queue.len() < QUEUE_MAX => st.queue.push_back(w),
            Work::Own { done, .. } | Work::Tidy { done, .. } => {
                let _ = done.send(-i64::from(libc::EAGAIN));
            }
            _ => {}
        }
    }

    /// Forgets housekeeping that has not begun.
    pub fn forget_housekeeping(&self) {
        lock(&self.st)
            .queue
            .retain(|w| !matches!(w, Work::Tidy { .. }));
    }

    /// Does a call of ours and waits for it.
    pub fn own(&self, nr: i64, args: [u64; 6]) -> Option<i64> {
        let (done, rx) = std::sync::mpsc::channel();
        self.submit(Work::Own { nr, args, done });
        rx.recv_timeout(OWN_MAX).ok()
    }

    /// Does some housekeeping and waits for it as long as `limit`: a call of the body may come first, and block.
    pub fn tidy(&self, nr: i64, args: [u64; 6], limit: Duration) -> Option<i64> {
        let (done, rx) = std::sync::mpsc::channel();
        self.submit(Work::Tidy { nr, args, done });
        rx.recv_timeout(limit).ok()
    }

    /// Posts the next work. The deputy is woken when the lock is given back: its waiter takes it then.
    fn begin(&self, st: &mut State, w: Work) {
        match w {
            Work::Call(mut c) => {
                timing(st, c.flags, &mut c.packed);
                let payload = sends::packed_payload(&c.packed);
                self.post(&mut c.packed, c.mask);
                let Call { seq, packed, .. } = *c;
                st.doing = Some(Doing::Call {
                    seq,
                    outs: packed.outs,
                    nr: packed.nr,
                    args: packed.args,
                    payload,
                    cut: false,
                });
            }
            Work::Part { mut call, done } => {
                self.post(&mut call.packed, call.mask);
                st.doing = Some(Doing::Part(call.packed.outs, done));
            }
            Work::Own { nr, args, done } | Work::Tidy { nr, args, done } => {
                st.doing = Some(Doing::Own(Some(done)));
                self.slot.post(nr, args, None, None);
            }
            Work::End { nr, code } => {
                st.doing = Some(Doing::Own(None));
                self.slot.post(nr, [code, 0, 0, 0, 0, 0], None, None);
            }
            Work::Clone { flags, child, done } => {
                let args = [flags, 0, 0, 0, 0, 0];
                self.slot.post(libc::SYS_clone, args, None, Some(&child));
                st.doing = Some(Doing::Clone(child, done));
            }
        }
    }

    /// Before: the state is locked, so that its waiter finds in there what it does.
    fn post(&self, packed: &mut Packed, mask: u64) {
        self.common.calls.fetch_add(1, Ordering::Relaxed);
        let base = self.slot.data_addr();
        let mut area = std::mem::take(&mut packed.data);
        for &at in &packed.relocs {
            let at = at as usize;
            let v = u64::from_le_bytes(area[at..at + 8].try_into().unwrap_or_default());
            area[at..at + 8].copy_from_slice(&v.wrapping_add(base).to_le_bytes());
        }
        self.slot.write_data(0, &area);
        let mask = self.mask(mask);
        self.slot
            .post(packed.nr.into(), packed.args_at(base), mask, None);
    }

    /// What to block during a call of a thread that blocks `mask` (told where it matters). What of that its process
    /// reads from a descriptor stays blocked behind the call, too: it must wait here, not at the body.
    fn mask(&self, mask: u64) -> Option<u64> {
        let read = self.common.signalfds.load(Ordering::Relaxed);
        if read == 0 {
            return (mask != 0).then_some(mask);
        }
        self.slot.set_idle(mask & read);
        Some(mask)
    }

    fn wait_loop(&self) {
        loop {
            let ret = self.slot.take_result();
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            self.finish(ret);
        }
    }

    /// Makes a call of its body, and answers it at once when it is short: on one core the deputy has mostly run already
    /// by the time it is woken. What blocks, says much or could not be sent now is its waiter's.
    pub fn serve(&self, c: Box<Call>) {
        let mut st = lock(&self.st);
        if st.doing.is_some() || !st.queue.is_empty() {
            drop(st);
            return self.submit(Work::Call(c));
        }
        self.slot.watch(false);
        self.begin(&mut st, Work::Call(c));
        drop(st);
        self.slot.wake();
        let done = self.slot.result();
        self.slot.watch(true);
        let Some(ret) = done.or_else(|| self.slot.result()) else {
            return;
        };
        if !self.is_short(ret) || !self.link().takes_more() {
            return self.slot.wake_waiter();
        }
        let Some(ret) = self.slot.take() else { return };
        if self.closed.load(Ordering::Acquire) {
            // It was its waiter's.
            return self.slot.fail(AGAIN);
        }
        self.finish(ret);
    }

    fn is_short(&self, ret: i64) -> bool {
        match &lock(&self.st).doing {
            Some(Doing::Call { outs, .. }) => {
                outs.iter().map(|o| out_len(o, ret)).sum::<usize>() <= SHORT
            }
            _ => false,
        }
    }

    /// Its call has ended, and the result was taken.
    fn finish(&self, ret: i64) {
        let mut st = lock(&self.st);
        let doing = st.doing.take();
        let late = self.late(&st, doing.as_ref(), ret);
        if let Some(Doing::Call { nr, outs, .. }) = &doing {
            self.settle(&mut st, *nr, ret, outs);
        }
        let kept = if ret > 0 || ret == -516 || ret == -4 {
            st.kept
        } else {
            None
        };
        let outs = match &doing {
            Some(Doing::Call { outs, nr, args, .. }) => {
                let mut all = self.collect(outs, ret);
                self.add_cpu(i64::from(*nr), *args, ret, &mut Results(outs, &mut all));
                all
            }
            Some(Doing::Part(outs, _)) => self.collect(outs, ret),
            _ => Vec::new(),
        };
        let next = st.queue.pop_front();
        let posted = next.is_some();
        if let Some(w) = next {
            self.begin(&mut st, w);
        }
        drop(st);
        if posted {
            self.slot.wake();
        }
        match doing {
            Some(Doing::Call { seq, cut: true, .. }) => {
                let put = ret.to_le_bytes();
                self.link().reply(self.tid, seq, AGAIN, &put);
            }
            Some(Doing::Call { seq, nr, .. }) => {
                if i64::from(nr) == libc::SYS_restart_syscall
                    && let Some(k) = kept
                {
                    self.link().poke(self.tid, k);
                } else if let Some(poke) = late {
                    self.link().tell(&poke);
                }
                self.link().reply(self.tid, seq, ret, &outs);
            }
            Some(Doing::Part(_, done)) => done(ret, outs),
            Some(Doing::Own(Some(tx))) => drop(tx.send(ret)),
            Some(Doing::Clone(slot, tx)) => drop(tx.send((ret, slot))),
            Some(Doing::Own(None)) | None => {}
        }
    }

    /// Remembers what a restart needs.
    fn settle(&self, st: &mut State, nr: u16, ret: i64, outs: &[Out]) {
        if !(-516..=-512).contains(&ret) {
            st.deadline = None;
            st.block = None;
        } else if ret == -516 && i64::from(nr) != libc::SYS_restart_syscall {
            st.block = Some((nr, st.deadline));
            st.results = outs.to_vec();
            st.kept = None;
        }
    }

    /// A continuation has no results of its own: those of the call that we ran for the body go where its
    /// registers, which nobody changed, still point.
    fn late(&self, st: &State, doing: Option<&Doing>, ret: i64) -> Option<ToHost> {
        let Some(Doing::Call { nr, args, .. }) = doing else {
            return None;
        };
        let (call, _) = st.block?;
        if i64::from(*nr) != libc::SYS_restart_syscall {
            return None;
        }
        let addr = match i64::from(call) {
            libc::SYS_poll => args[0],
            libc::SYS_nanosleep => args[1],
            libc::SYS_clock_nanosleep => args[3],
            _ => return None,
        };
        let bytes = self.collect(&st.results, ret);
        (addr != 0 && !bytes.is_empty()).then_some(ToHost::Poke {
            tid: self.tid,
            addr,
            bytes,
        })
    }

    /// Children that were away used more than home's kernel knows.
    fn add_cpu(&self, nr: i64, args: [u64; 6], ret: i64, results: &mut Results<'_>) {
        if cpu::tells(nr) {
            let (pid, tid) = (self.pid, self.tid);
            let done = cpu::Done {
                pid,
                tid,
                nr,
                args,
                ret,
            };
            self.common.cpu.correct(&done, false, results);
        }
    }

    fn collect(&self, outs: &[Out], ret: i64) -> Vec<u8> {
        let total = outs.iter().map(|o| out_len(o, ret)).sum();
        let mut all = vec![0u8; total];
        let mut at = 0;
        for o in outs {
            let n = out_len(o, ret);
            self.slot.read_data(o.off.into(), &mut all[at..at + n]);
            at += n;
        }
        all
    }
}

/// A relative timeout that is being waited for again shrinks to what is left of it.
fn timing(st: &mut State, flags: u8, packed: &mut Packed) {
    let Some(t) = armento_abi::deadline(packed) else {
        return;
    };
    match st.deadline {
        Some(d) if flags & call::AGAIN != 0 => {
            let left = d.saturating_duration_since(Instant::now());
            armento_abi::set_timeout(packed, left.as_nanos() as u64);
        }
        _ => st.deadline = Instant::now().checked_add(Duration::from_nanos(t.rel_ns)),
    }
}

impl HostLink {
    pub fn reply(&self, tid: Tid, seq: u32, ret: i64, outs: &[u8]) {
        let head = call::reply_head(tid, seq, ret);
        let _ = write_frame(&mut *lock(&self.writer), call::REPLY, &[&head, outs]);
    }
}
