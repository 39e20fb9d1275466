//! Work is posted to a deputy's slot, done by its loop, and answered.
//!
//! From: `thread.rs`. Next: the body's host (`wire/src/call.rs`).

use super::host_link::Post;
use super::limits;
use super::readahead;
use super::thread::Deputy;
use super::work::{AGAIN, Doing, State, Work};
use crate::cpu_time::{self, Results};
use crate::descriptors;
use crate::names::{Reply, Request};
use crate::record::{Answer, CallId};
use crate::sync::lock;
use armento_abi::sends::transfers;
use armento_abi::{Out, Packed, out_len, sends};
use armento_model::{HomePid, HomeTid, Tid};
use armento_tracee::region::DATA;
use armento_tracee::sys;
use armento_wire::call::{self, Call};
use armento_wire::talk::ToHost;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most bytes of results with which the thread that brought a call answers it, too: two pages, which a link that
/// [`HostLink::takes_more`] takes at once.
const SHORT: usize = 8 << 10;

/// KERNEL: struct kernel_sigaction on x86-64: handler (SIG_DFL is 0, SIG_IGN 1), flags, restorer, mask.
const ACTION: usize = 32;
/// sizeof(sigset_t) of the kernel.
const SIGSET: u64 = 8;
/// At the end of a slot's data.
const ACTION_ROOM: u64 = 64;

/// An address of the program, and bytes for it.
type Poke = (u64, Vec<u8>);

impl Deputy {
    /// Posts the next work. The deputy is woken when the lock is given back: its waiter takes it then.
    pub(super) fn begin(&self, st: &mut State, w: Work) {
        match w {
            Work::Call(mut c) => {
                let common = &self.common;
                common.calls.fetch_add(1, Ordering::Relaxed);
                let now = || (CallId::of(&c.packed), Instant::now());
                let recorded = common.record.is_some().then(now);
                let sent = c.packed.data.len() as u64;
                common.bytes_sent.fetch_add(sent, Ordering::Relaxed);
                timing(st, c.flags, &mut c.packed);
                let payload = sends::packed_payload(&c.packed);
                let path =
                    (c.flags & call::NAMES != 0).then(|| armento_abi::packed_path(&c.packed));
                self.post(&mut c.packed, c.mask);
                let Call {
                    seq, packed, flags, ..
                } = *c;
                st.doing = Some(Doing::Call {
                    seq,
                    outs: packed.outs,
                    nr: packed.nr,
                    args: packed.args,
                    facts: flags & call::FACTS != 0,
                    path: path.flatten(),
                    payload,
                    cut: false,
                    recorded,
                });
            }
            Work::Posted(mut c, post) => {
                let data = c.packed.data.clone();
                self.post(&mut c.packed, c.mask);
                c.packed.data = data;
                st.doing = Some(Doing::Posted(c, post));
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
            Work::Ignore { sig, yes } => {
                let at = DATA - ACTION_ROOM;
                let mut action = [0u8; ACTION];
                action[0] = u8::from(yes);
                self.slot.write_data(at, &action);
                st.doing = Some(Doing::Own(None));
                let args = [sig, self.slot.data_addr() + at, 0, SIGSET, 0, 0];
                self.slot.post(libc::SYS_rt_sigaction, args, None, None);
            }
            Work::Clone {
                flags,
                tid,
                child,
                done,
            } => {
                match tid {
                    None => {
                        let args = [flags, 0, 0, 0, 0, 0];
                        self.slot.post(libc::SYS_clone, args, None, Some(&child));
                    }
                    Some(tid) => {
                        let asked = clone_with(flags, tid, self.slot.data_addr());
                        self.slot.write_data(0, &asked);
                        let args = [self.slot.data_addr(), CLONE_ARGS as u64, 0, 0, 0, 0];
                        self.slot.post(libc::SYS_clone3, args, None, Some(&child));
                    }
                }
                st.doing = Some(Doing::Clone(child, done));
            }
        }
    }

    /// Before: the state is locked, so that its waiter finds in there what it does.
    fn post(&self, packed: &mut Packed, mask: u64) {
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

    pub(super) fn wait_loop(&self) {
        loop {
            let ret = self.slot.take_result();
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            self.tell_limits();
            self.finish(ret);
        }
    }

    fn tell_limits(&self) {
        limits::tell_limits(&self.common, self.pid, &self.link());
    }

    /// Makes a call of its body, and answers it at once when it is short: on one core the deputy has mostly run already
    /// by the time it is woken. What blocks, says much or could not be sent now is its waiter's.
    pub fn serve(&self, c: Box<Call>) {
        let hears = limits::brings_data(c.packed.nr);
        self.serve_work(Work::Call(c), hears);
    }

    /// The same for a call that its body does not wait for.
    pub fn serve_posted(&self, c: Box<Call>) {
        let bytes = sends::posted(&c.packed);
        let post = self.link().posts.begin(self.tid, bytes);
        self.serve_work(Work::Posted(c, post), false);
    }

    fn serve_work(&self, w: Work, hears: bool) {
        let mut st = lock(&self.st);
        let closed = self.closed.load(Ordering::Acquire);
        if closed || st.doing.is_some() || !st.queue.is_empty() {
            drop(st);
            return self.submit(w);
        }
        self.slot.watch(false);
        self.begin(&mut st, w);
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
            // Its waiter would have taken it.
            return self.slot.fail(AGAIN);
        }
        if hears {
            self.tell_limits();
        }
        self.finish(ret);
    }

    /// Before the body learns what came of it. A call that a stop has ended will be made again by the body.
    fn record(&self, doing: Option<&Doing>, ret: i64, outs: &[u8], poke: Option<&Poke>) {
        let Some(record) = &self.common.record else {
            return;
        };
        match doing {
            Some(Doing::Call {
                nr,
                recorded: Some((call, begun)),
                cut,
                ..
            }) if !(-516..=-512).contains(&ret) => {
                let answer = Answer {
                    ret,
                    outs: outs.to_vec(),
                    part: *cut,
                    took: begun.elapsed(),
                    begun: Some(*begun),
                    done: None,
                    poke: poke.cloned(),
                };
                record.note(self.tid, *call, *nr, answer);
            }
            Some(Doing::Call {
                recorded: Some((call, _)),
                ..
            }) => record.note_unmade(self.tid, *call),
            Some(Doing::Posted(..)) => self.leaves_gap("a write was answered before it was made"),
            Some(Doing::Part(..)) => self.leaves_gap("a call was made in several steps"),
            _ => {}
        }
    }

    /// What home's kernel has written at an address of the program, when a sleep went on.
    fn poke(&self, nr: u16, kept: Option<(u64, usize)>) -> Option<Poke> {
        let (addr, len) = kept.filter(|_| i64::from(nr) == libc::SYS_restart_syscall)?;
        let mut bytes = vec![0u8; len];
        let read = sys::vm_read(self.tid, addr, &mut bytes);
        matches!(read, Ok(n) if n == len).then_some((addr, bytes))
    }

    fn leaves_gap(&self, what: &str) {
        if let Some(record) = &self.common.record {
            record.leave_gap(|| what.to_owned());
        }
    }

    fn is_short(&self, ret: i64) -> bool {
        match &lock(&self.st).doing {
            Some(Doing::Call { outs, .. }) => {
                outs.iter().map(|o| out_len(o, ret)).sum::<usize>() <= SHORT
            }
            Some(Doing::Posted(..)) => true,
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
        let poke = match &doing {
            Some(Doing::Call { nr, cut: false, .. }) => self.poke(*nr, kept).or(late),
            _ => None,
        };
        // While it counts as under way: a loss waits for that.
        self.record(doing.as_ref(), ret, &outs, poke.as_ref());
        let doing = match doing {
            // A stop has ended it before it was made.
            Some(Doing::Posted(c, post)) if (-516..=-512).contains(&ret) => {
                st.queue.push_front(Work::Posted(c, post));
                None
            }
            other => other,
        };
        if let Some(Doing::Call { nr, args, .. }) = &doing
            && ret > 0
            && transfers((*nr).into())
        {
            let traffic = &self.link().traffic;
            traffic.count(self.pid, args[0] as i32, Instant::now());
        }
        let received = outs.len() as u64;
        let total = &self.common.bytes_received;
        total.fetch_add(received, Ordering::Relaxed);
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
                self.link().part(self.tid, seq, ret, &outs);
            }
            Some(Doing::Posted(c, post)) => self.posted(&c, post, ret),
            Some(Doing::Call {
                seq,
                nr,
                args,
                facts,
                path,
                ..
            }) => {
                if facts {
                    self.tell_facts(seq, nr, args, ret);
                }
                let path = path.filter(|_| wants_names(nr, ret));
                if let Some(path) = path
                    && self.request_names((seq, nr), path, (ret, &outs))
                {
                    return;
                }
                if let Some((addr, bytes)) = poke {
                    let tid = HomeTid::of_home(self.tid);
                    self.link().send(&ToHost::Poke { tid, addr, bytes });
                }
                self.link().reply(self.tid, seq, ret, &outs);
            }
            Some(Doing::Part(_, done)) => done(ret, outs),
            Some(Doing::Own(Some(tx))) => drop(tx.send(ret)),
            Some(Doing::Clone(slot, tx)) => drop(tx.send((ret, slot))),
            Some(Doing::Own(None)) | None => {}
        }
    }

    /// A posted call was made.
    fn posted(&self, c: &Call, post: Post, ret: i64) {
        let link = self.link();
        if ret != post.what.bytes as i64 {
            let (pid, fd) = (self.pid, c.packed.args[0] as i32);
            // KERNEL: a write that ended early gets its error when it goes on.
            let errno = if ret < 0 { -ret as i32 } else { libc::EIO };
            eprintln!(
                "process {pid}: a posted call on descriptor {fd} returned {ret}; the next call on it reports that error"
            );
            link.send(&ToHost::PostFailed {
                pid: HomePid::of_home(pid),
                fd,
                errno,
            });
        }
        drop(post);
        if let Some(made) = link.posts.to_tell() {
            link.send(&ToHost::Posted(made));
        }
    }

    /// What is known of the descriptor that a call has made, or written to.
    fn tell_facts(&self, seq: u32, nr: u16, args: [u64; 6], ret: i64) {
        let opens = [
            libc::SYS_open,
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_creat,
        ]
        .contains(&i64::from(nr));
        if ret < 0 || self.common.shares_files.load(Ordering::Acquire) {
            return;
        }
        let fd = if opens { ret as i32 } else { args[0] as i32 };
        let direct = opens && self.offer(seq, fd);
        let Some(f) = descriptors::facts(self.pid, fd) else {
            return;
        };
        let link = self.link();
        let told = |stat, begin| ToHost::Descriptor {
            tid: HomeTid::of_home(self.tid),
            seq,
            fd,
            writes: f.writes,
            stat,
            begin,
            device: f.device,
        };
        // What its host opens is not read ahead.
        if !opens || f.device.is_some() || direct {
            return link.send(&told(Vec::new(), None));
        }
        let opened = readahead::Opened {
            all: &link.readaheads,
            link: &link,
            descriptor: (self.pid, fd),
            seq,
        };
        let stat = || crate::sys::stat_bytes(&f.file);
        if f.metadata.is_dir() {
            let read = |known| told(stat(), opened.directory(&f.file, known));
            return link.send_directory(&f.metadata, read);
        }
        let stat = stat();
        link.send(&told(stat, opened.file(f.file, &f.metadata)));
    }

    /// Its host may open the file of a fresh descriptor itself. False: it may not.
    fn offer(&self, seq: u32, fd: i32) -> bool {
        let link = self.link();
        let Some(file) = link.mounts.offer(self.pid, fd) else {
            return false;
        };
        let tid = HomeTid::of_home(self.tid);
        link.send(&ToHost::Direct { tid, seq, fd, file });
        true
    }

    /// A call looked a path up. True when its reply is held until its host knows what the program will probably ask for
    /// next.
    fn request_names(
        &self,
        (seq, nr): (u32, u16),
        path: Vec<u8>,
        (ret, outs): (i64, &[u8]),
    ) -> bool {
        if self.common.shares_files.load(Ordering::Acquire) {
            return false;
        }
        let (link, tid) = (self.link(), self.tid);
        let attributes = asks_attributes(nr);
        let breaking = self.common.breaking.load(Ordering::Acquire);
        let holds = attributes && !breaking && link.names.requests.scans(Instant::now());
        let reply = holds.then(|| {
            let (link, outs) = (link.clone(), outs.to_vec());
            let send: Reply = Box::new(move || link.reply(tid, seq, ret, &outs));
            (tid, send)
        });
        let r = Request {
            pid: self.pid,
            seq,
            path,
            attributes,
            held: None,
        };
        let held = link.names.requests.request(r, reply);
        if held && self.common.breaking.load(Ordering::SeqCst) {
            link.names.requests.let_go(tid);
        }
        held
    }

    /// Remembers what a restart needs.
    pub(super) fn settle(&self, st: &mut State, nr: u16, ret: i64, outs: &[Out]) {
        if !(-516..=-512).contains(&ret) {
            st.deadline = None;
            st.block = None;
        } else if ret == -516 && i64::from(nr) != libc::SYS_restart_syscall {
            st.block = Some((nr, st.deadline));
            st.results = outs.to_vec();
            st.kept = None;
        }
    }

    /// A continuation has no results of its own: those of the call that we ran for the body go where its registers,
    /// which are unchanged, still point.
    fn late(&self, st: &State, doing: Option<&Doing>, ret: i64) -> Option<Poke> {
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
        (addr != 0 && !bytes.is_empty()).then_some((addr, bytes))
    }

    /// Children that were away used more than home's kernel knows.
    fn add_cpu(&self, nr: i64, args: [u64; 6], ret: i64, results: &mut Results<'_>) {
        if cpu_time::tells(nr) {
            let (pid, tid) = (self.pid, self.tid);
            let done = cpu_time::ReturnedCall {
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

/// Whether the result of a lookup depends on names alone: it led nowhere, or to a link or to what is none.
fn wants_names(nr: u16, ret: i64) -> bool {
    let reads = [libc::SYS_readlink, libc::SYS_readlinkat].contains(&i64::from(nr));
    let attributes = asks_attributes(nr) && ret == 0;
    attributes
        || ret == -i64::from(libc::ENOENT)
        || reads && (ret > 0 || ret == -i64::from(libc::EINVAL))
}

fn asks_attributes(nr: u16) -> bool {
    const CALLS: [i64; 4] = [
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
    ];
    CALLS.contains(&i64::from(nr))
}

/// A relative timeout that is being waited for again shrinks to what is left of it. When its thread has just left home,
/// it is not known how long it had waited; but where the kernel writes down what is left, it did so at the stop.
fn timing(st: &mut State, flags: u8, packed: &mut Packed) {
    let frozen_since = st.frozen_since.take();
    let Some(t) = armento_abi::deadline(packed) else {
        return;
    };
    let again = flags & call::AGAIN != 0;
    if !again || st.deadline.is_none() {
        let written_down = again && armento_abi::timeout_in_out(packed.nr.into());
        let from = frozen_since
            .filter(|_| written_down)
            .unwrap_or_else(Instant::now);
        st.deadline = from.checked_add(Duration::from_nanos(t.rel_ns));
    }
    if let Some(d) = st.deadline.filter(|_| again) {
        let left = d.saturating_duration_since(Instant::now());
        armento_abi::set_timeout(packed, left.as_nanos() as u64);
    }
}

/// Size of `struct clone_args` up to `set_tid_size`, bytes. KERNEL: clone(2), CLONE_ARGS_SIZE_VER1 (since 5.5).
const CLONE_ARGS: usize = 80;

/// The arguments of clone3(2) for a thread or process that gets this number, and behind them the number itself. `at`: where
/// they will lie.
fn clone_with(flags: u64, tid: Tid, at: u64) -> Vec<u8> {
    let signal = flags & 0xff;
    let (number, numbers) = (at + CLONE_ARGS as u64, 1);
    // flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size
    let words = [flags & !0xff, 0, 0, 0, signal, 0, 0, 0, number, numbers];
    let mut all = words.map(u64::to_le_bytes).concat();
    all.extend_from_slice(&tid.to_le_bytes());
    all
}
