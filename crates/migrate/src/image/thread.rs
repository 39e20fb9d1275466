//! One thread: registers, extended state, mask, and what the kernel stores for it.

use super::restarts::{
    ERESTART_RESTARTBLOCK, ERESTARTNOHAND, ERESTARTNOINTR, RESTART, begin_anew, interrupted,
    maybe_ours, settle, turned_back,
};
use super::{masked, uncarried};
use crate::Result;
use crate::image::Cpu;
use armento_model::{HomeTid, Tid};
use armento_tracee::call::Call;
use armento_tracee::inject::{self, Hold};
use armento_tracee::region::{Code, SCRATCH_CALLS};
use armento_tracee::trace::{self, Regs, Rseq};
use armento_tracee::{endless, sys};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// The tid at home.
    pub tid: HomeTid,
    /// `struct user_regs_struct`, 27 words.
    pub regs: Vec<u64>,
    /// Without the zeros at its end: [`trace::set_xstate`] needs them again.
    #[serde(with = "serde_bytes")]
    pub xstate: Vec<u8>,
    pub mask: u64,
    /// Address, size, signature; size 0: none.
    pub rseq: (u64, u32, u32),
    pub robust: (u64, u64),
    pub clear_tid: u64,
    /// stack_t: base, flags, size.
    pub altstack: [u64; 3],
    pub name: String,
    /// The restart block of its interrupted call is at its deputy: it is continued there by `restart_syscall`.
    pub at_deputy: bool,
    /// The kernel is about to restart its last call: an earlier deadline applies.
    pub again: bool,
    /// Deadline of a wait that it is about to restart (`futex_wait.rs`): home's CLOCK_MONOTONIC, nanoseconds.
    pub until: Option<u64>,
    /// Bytes that this call has already transferred: written (by a write), or received (by a recv for a whole message).
    pub written: u64,
    pub cpu: Cpu,
}

impl ThreadState {
    /// Number of the call it is in, from orig_rax.
    pub fn number(&self) -> i64 {
        self.regs[ORIG] as i64
    }

    /// Its restart block is or will be lost: the call `nr` is issued from the beginning.
    pub fn begin_anew(&mut self, nr: i64) {
        if self.regs[RAX] != RESTART {
            self.regs[RIP] = self.regs[RIP].wrapping_sub(2);
        }
        self.regs[RAX] = nr as u64;
        self.regs[ORIG] = u64::MAX;
        self.at_deputy = false;
        self.again = false;
    }

    /// It slept in the call that it is about to restart: makes the registers show that, whatever the kernel has made of
    /// them since.
    pub fn slept_in(&mut self, nr: i64) {
        if !self.again || !armento_abi::removable(nr as u64) {
            return;
        }
        if self.regs[RAX] == nr as u64 {
            // The kernel has set it back to its `syscall` already.
            self.regs[RIP] = self.regs[RIP].wrapping_add(2);
        }
        self.regs[RAX] = ERESTARTNOHAND as u64;
        self.regs[ORIG] = nr as u64;
    }

    /// It has transferred `written` bytes in a call that it is about to restart: makes the registers show that,
    /// whatever the kernel has made of them since. False: it is in no call any more.
    pub fn has_written(&mut self, written: u64, nr: i64) -> bool {
        if !self.again {
            return false;
        }
        if self.regs[RAX] == nr as u64 {
            // The kernel has set it back to its `syscall` already.
            self.regs[RIP] = self.regs[RIP].wrapping_add(2);
        }
        self.regs[RAX] = ERESTARTNOINTR as u64;
        self.regs[ORIG] = nr as u64;
        self.written = written;
        true
    }

    /// Whether it is about to continue a call by its restart block, or in such a continuation.
    pub fn restarts(&self) -> bool {
        let rax = self.regs[RAX];
        let named = rax == RESTART || self.regs[ORIG] == RESTART;
        self.again && (named || rax as i64 == ERESTART_RESTARTBLOCK)
    }
}

/// Indexes of the registers' words.
const RAX: usize = 10;
const ORIG: usize = 15;
const RIP: usize = 16;

/// Offsets in the scratch memory of one thread.
const ALTSTACK: u64 = 0;
const TID_ADDRESS: u64 = 32;
const NAME: u64 = 40;
const UNCARRIED: u64 = 56;
/// Their size, bytes.
const ASKED: usize = UNCARRIED as usize + uncarried::ASKED;
/// Calls of [`ask`] that must succeed: those before the calls of `uncarried.rs`.
const OWN: usize = 3;
const _: () = assert!(OWN + uncarried::CALLS <= SCRATCH_CALLS);

const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_GET_TID_ADDRESS: u64 = 40;
const RSEQ_UNREGISTER: u64 = 1;
pub fn words(r: &Regs) -> Vec<u64> {
    vec![
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx,
        r.rsi, r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds,
        r.es, r.fs, r.gs,
    ]
}

pub fn from_words(w: &[u64]) -> Option<Regs> {
    let &[
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        cs,
        eflags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    ] = w
    else {
        return None;
    };
    let mut r = sys::zeroed_regs();
    (r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx) = (r15, r14, r13, r12, rbp, rbx);
    (r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx) = (r11, r10, r9, r8, rax, rcx);
    (r.rdx, r.rsi, r.rdi, r.orig_rax, r.rip) = (rdx, rsi, rdi, orig_rax, rip);
    (r.cs, r.eflags, r.rsp, r.ss) = (cs, eflags, rsp, ss);
    (r.fs_base, r.gs_base, r.ds, r.es, r.fs, r.gs) = (fs_base, gs_base, ds, es, fs, gs);
    Some(r)
}

/// For a thread that was stopped and will go on where it is: undoes an EINTR, or a short read from an endless device,
/// that our stop caused.
pub fn settle_stopped(tid: Tid) {
    let Ok(mut r) = trace::regs(tid) else { return };
    let (eintr, short) = (maybe_ours(&r), cut_short(tid, &r));
    if (eintr || short) && !masked::signal_waits(tid) {
        match eintr {
            true => r.rax = ERESTARTNOHAND as u64,
            false => begin_anew(&mut r),
        }
        // A dead thread needs no change.
        let _ = trace::set_regs(tid, &r);
    }
}

/// Whether a read from an endless device ended early. The cause is found by [`masked::signal_waits`].
fn cut_short(tid: Tid, r: &Regs) -> bool {
    let nr = r.orig_rax as i64;
    nr >= 0 && endless::cut(tid, nr, &trace::args(r), r.rax as i64)
}

/// Whether its call's EINTR, or short read, if there is one, is due to a signal with a handler. Before: not held.
pub fn own_eintr(tid: Tid) -> bool {
    trace::regs(tid).is_ok_and(|r| maybe_ours(&r) || cut_short(tid, &r))
        && masked::signal_waits(tid)
}

/// Which side the thread is on: at home it has a name to be transferred, and may have state that keeps it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Home,
    Host,
}

/// Before: held. Begins the calls by which the thread reads its own state; [`read`] waits for them. Its `code` is not
/// used for anything else until then.
pub fn ask(h: &mut Hold, code: &Code, at: At) -> Result<()> {
    let scratch = code.scratch(ALTSTACK, &[0u8; ASKED]);
    let (alt, clear, name) = (scratch, scratch + TID_ADDRESS, scratch + NAME);
    let mut calls = vec![
        (libc::SYS_sigaltstack, [0, alt, 0, 0, 0, 0]),
        (libc::SYS_prctl, [PR_GET_TID_ADDRESS, clear, 0, 0, 0, 0]),
    ];
    if at == At::Home {
        calls.push((libc::SYS_prctl, [PR_GET_NAME, name, 0, 0, 0, 0]));
        calls.extend(uncarried::ask(scratch + UNCARRIED));
    }
    Ok(h.begin(code, &calls)?)
}

/// Before: [`ask`] was called. Its CPU time is set by the owner.
pub fn read(h: &mut Hold, code: &Code, tid: HomeTid, signals: bool) -> Result<ThreadState> {
    let said = h.end(code)?;
    let (own, rest) = said.split_at(said.len().min(OWN));
    for r in own {
        inject::ok("read thread", h.tid, *r)?;
    }
    let mut raw = [0u8; ASKED];
    code.read_scratch(ALTSTACK, &mut raw);
    let word = |i: usize| u64::from_le_bytes(raw[i..i + 8].try_into().unwrap_or_default());
    if !rest.is_empty() {
        uncarried::thread(rest, word(UNCARRIED as usize).to_le_bytes())?;
    }
    let mut regs = h.regs;
    let back = turned_back(h.tid, &regs);
    if !back {
        settle(&mut regs, signals);
        if !signals && cut_short(h.tid, &regs) {
            begin_anew(&mut regs);
        }
    }
    let rseq = trace::rseq(h.tid).unwrap_or_default();
    Ok(ThreadState {
        tid,
        at_deputy: regs.rax as i64 == ERESTART_RESTARTBLOCK && (regs.orig_rax as i64) >= 0
            || back && regs.rax == RESTART,
        again: interrupted(&regs) || back,
        until: None,
        written: 0,
        regs: words(&regs),
        xstate: trimmed(trace::xstate(h.tid)?),
        mask: h.mask,
        rseq: (rseq.ptr, rseq.len, rseq.sig),
        robust: sys::robust_list(h.tid).unwrap_or((0, 24)),
        clear_tid: word(32),
        // SS_ONSTACK is status in the kernel's answer, not a setting.
        altstack: [word(0), word(8) & !1, word(16)],
        name: name_in(&raw[NAME as usize..UNCARRIED as usize]),
        cpu: Cpu::default(),
    })
}

/// The text up to the NUL. A name may be any bytes; one that is not UTF-8 could not be displayed before either.
fn name_in(raw: &[u8]) -> String {
    let end = raw.iter().position(|b| *b == 0).unwrap_or(raw.len());
    String::from_utf8_lossy(&raw[..end]).into_owned()
}

/// Mostly zeros in most threads: of 11 KiB with tile registers some hundred bytes travel.
fn trimmed(mut xstate: Vec<u8>) -> Vec<u8> {
    let used = xstate.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    // Whole words, for the code that pads it again.
    xstate.truncate(used.next_multiple_of(8).min(xstate.len()));
    xstate
}

/// Names a thread that was created for it.
pub fn name_call(code: &Code, name: &str) -> Call {
    let mut name = name.as_bytes().to_vec();
    name.truncate(15);
    name.push(0);
    let name = code.scratch(NAME, &name);
    (libc::SYS_prctl, [PR_SET_NAME, name, 0, 0, 0, 0])
}

/// Calls that restore what the kernel stored for a thread.
pub fn set_calls(code: &Code, t: &ThreadState) -> Vec<Call> {
    let alt: Vec<u8> = t.altstack.iter().flat_map(|w| w.to_le_bytes()).collect();
    let alt = code.scratch(ALTSTACK, &alt);
    let mut calls = vec![
        (libc::SYS_set_tid_address, [t.clear_tid, 0, 0, 0, 0, 0]),
        (libc::SYS_sigaltstack, [alt, 0, 0, 0, 0, 0]),
    ];
    if t.robust.0 != 0 {
        calls.push((
            libc::SYS_set_robust_list,
            [t.robust.0, t.robust.1, 0, 0, 0, 0],
        ));
    }
    if t.rseq.1 != 0 {
        calls.push((
            libc::SYS_rseq,
            [t.rseq.0, t.rseq.1.into(), 0, t.rseq.2.into(), 0, 0],
        ));
    }
    calls
}

/// Calls that unregister a thread's memory with the kernel before it is unmapped.
pub fn forget_calls(code: &Code, t: &ThreadState) -> Vec<Call> {
    let off: Vec<u8> = [0u64, 2, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let off = code.scratch(ALTSTACK, &off);
    let mut calls = vec![
        (libc::SYS_set_tid_address, [0; 6]),
        (libc::SYS_set_robust_list, [0, 24, 0, 0, 0, 0]),
        (libc::SYS_sigaltstack, [off, 0, 0, 0, 0, 0]),
    ];
    if t.rseq.1 != 0 {
        calls.push((
            libc::SYS_rseq,
            [
                t.rseq.0,
                t.rseq.1.into(),
                RSEQ_UNREGISTER,
                t.rseq.2.into(),
                0,
                0,
            ],
        ));
    }
    calls
}

/// The thread's current rseq registration, for a stub that will lose its memory.
pub fn rseq_of(tid: Tid) -> Rseq {
    trace::rseq(tid).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_round_trip() {
        let w: Vec<u64> = (1..=27).collect();
        assert_eq!(words(&from_words(&w).expect("27 words")), w);
        assert!(from_words(&w[1..]).is_none());
    }

    #[test]
    fn slept_call_is_restored_from_any_register_state() {
        let semop = libc::SYS_semop;
        let check = |nr: i64, again: bool, (orig, rax): (i64, i64), want: (i64, i64, u64)| {
            let mut regs = vec![0; 27];
            (regs[ORIG], regs[RAX], regs[RIP]) = (orig as u64, rax as u64, 100);
            let mut s = ThreadState {
                regs,
                again,
                ..ThreadState::default()
            };
            s.slept_in(nr);
            let got = (s.regs[ORIG] as i64, s.regs[RAX] as i64, s.regs[RIP]);
            assert_eq!(got, want, "{nr} {again} {orig} {rax}");
        };
        check(semop, true, (semop, -513), (semop, -514, 100));
        check(semop, true, (semop, -514), (semop, -514, 100));
        check(semop, true, (-1, semop), (semop, -514, 102));
        check(semop, false, (semop, 0), (semop, 0, 100));
        check(libc::SYS_read, true, (0, -513), (0, -513, 100));
    }

    #[test]
    fn interrupted_calls_are_settled() {
        let check = |nr: i64, ret: i64, signals: bool, want: (i64, i64)| {
            let mut r = sys::zeroed_regs();
            (r.orig_rax, r.rax, r.rip) = (nr as u64, ret as u64, 100);
            settle(&mut r, signals);
            assert_eq!((r.orig_rax as i64, r.rax as i64), want, "{nr} {ret}");
        };
        check(
            libc::SYS_epoll_wait,
            -4,
            false,
            (libc::SYS_epoll_wait, -514),
        );
        check(libc::SYS_epoll_wait, -4, true, (libc::SYS_epoll_wait, -4));
        check(libc::SYS_getpid, 42, false, (libc::SYS_getpid, 42));
        check(libc::SYS_futex, -516, false, (-1, libc::SYS_futex));
        check(
            libc::SYS_nanosleep,
            -516,
            false,
            (libc::SYS_nanosleep, -516),
        );
    }
}
