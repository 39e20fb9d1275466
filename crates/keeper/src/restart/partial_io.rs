//! The rest of a call that a stop cut short: a `recv` with MSG_WAITALL, a read from a terminal with MIN or a socket
//! with SO_RCVLOWAT, and writes to a pipe, a stream or a terminal that block.
//!
//! From: `in_progress.rs`. The kernel returns how much there was until then, where it would have waited for the rest.
//! So the thread asks for the rest, and is told the sum:
//!
//! ```text
//! recv(buf, 10) = 4 ──ask──► recv(buf + 4, 6) = 6 ──ended──► recv(buf, 10) = 10
//! ```
//! The rest of scattered bytes goes piece by piece. A thread that writes, or waits for a whole message, may travel
//! meanwhile (`ThreadState::written`).

use armento_abi::sends;
use armento_migrate::image::masked::Memory;
use armento_migrate::image::restarts;
use armento_migrate::image::{ThreadState, thread};
use armento_migrate::stop_threads::WHOLE_INPUT;
use armento_model::{Pid, Tid};
use armento_tracee::trace::{self, Regs};
use armento_tracee::{blocking, read_minimum};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialIo {
    /// The program's call.
    nr: i64,
    args: [u64; 6],
    got: u64,
    /// It waits until there is so much.
    want: u64,
    sends: bool,
    /// Number of the call that asks for the rest.
    pub asks: i64,
}

/// The rest of a call that ended with less than it waits for. KERNEL: recv(2), MSG_WAITALL; termios(3); socket(7).
pub fn cut(pid: Pid, tid: Tid, r: &Regs) -> Option<PartialIo> {
    let ret = r.rax as i64;
    if ret <= 0 || (r.orig_rax as i64) < 0 {
        return None;
    }
    let (nr, args) = (r.orig_rax as i64, trace::args(r));
    let sends = sends::sends(r.orig_rax, &args);
    let want = match nr {
        _ if sends => sent_in_part(pid, tid, r, &args)?,
        _ if sends::gathers(r.orig_rax, &args) && stream(pid, r.rdi as i32) => r.rdx,
        libc::SYS_recvfrom if r.r10 as i32 & (libc::MSG_PEEK | libc::MSG_WAITALL) != 0 => {
            return None;
        }
        // More than that the call for the rest would not get: it would wait for as much again.
        libc::SYS_read | libc::SYS_recvfrom if (r.rax) < r.rdx => {
            read_minimum::of(pid, r.rdi as i32)?.min(r.rdx)
        }
        _ => return None,
    };
    (r.rax < want && want <= i64::MAX as u64).then_some(PartialIo {
        nr,
        args,
        got: r.rax,
        want,
        sends,
        asks: nr,
    })
}

/// Whether a call with MSG_WAITALL waits there.
fn stream(pid: Pid, fd: i32) -> bool {
    blocking::gathers(pid, fd) == Some(true)
}

/// The whole length of a write that would have waited until all was written.
fn sent_in_part(pid: Pid, tid: Tid, r: &Regs, args: &[u64; 6]) -> Option<u64> {
    let all = sends::payload(r.orig_rax, args, &mut Memory(tid))?;
    (r.rax < all && blocking::waits(pid, args[0] as i32)).then_some(all)
}

impl PartialIo {
    /// One that has come home with a part done. `r`: as it would issue its call again.
    pub fn of_traveller(tid: Tid, r: &mut Regs, written: u64) -> Option<PartialIo> {
        if !restarts::interrupted(r) {
            return None;
        }
        let (nr, args) = (r.orig_rax as i64, trace::args(r));
        let sends = nr != libc::SYS_recvfrom;
        let want = if sends {
            sends::payload(r.orig_rax, &args, &mut Memory(tid))?
        } else {
            args[2]
        };
        let mut rest = PartialIo {
            nr,
            args,
            got: written,
            want,
            sends,
            asks: nr,
        };
        rest.ask(tid, r);
        Some(rest)
    }

    /// Why its process stays so long; `None`: it need not.
    pub fn why(&self) -> Option<&'static str> {
        match self.nr {
            _ if self.sends => None,
            _ if sends::gathers(self.nr as u64, &self.args) => None,
            _ => Some(WHOLE_INPUT),
        }
    }

    /// Before: its call has ended. When it goes on it asks for the rest.
    pub fn ask(&mut self, tid: Tid, r: &mut Regs) {
        let (nr, args) = self.rest(tid);
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = args;
        (r.rax, r.orig_rax) = (nr, u64::MAX);
        r.rip -= 2;
        self.asks = nr as i64;
    }

    /// The call for the rest.
    fn rest(&self, tid: Tid) -> (u64, [u64; 6]) {
        let (nr, [fd, buf, len, flags, ..]) = (self.nr as u64, self.args);
        if self.sends {
            let rest = sends::rest(nr, &self.args, &mut Memory(tid), self.got);
            // Another thread has changed what is to be written: nothing is left.
            return rest.unwrap_or((nr, [fd, buf, 0, 0, 0, 0]));
        }
        // A stream's sender was told already.
        let left = self.want.min(len) - self.got;
        (nr, [fd, buf + self.got, left, flags, 0, 0])
    }

    /// The call for the rest ended, or was interrupted. `ends`: by something that is the program's business.
    /// True when there is nothing left to ask for.
    pub fn ended(&mut self, tid: Tid, r: &mut Regs, ends: bool) -> bool {
        let ret = r.rax as i64;
        self.got += ret.max(0) as u64;
        if restarts::interrupted(r) && !ends {
            // The kernel issues it again.
            return false;
        }
        if ret > 0 && self.got < self.want && !ends {
            self.ask(tid, r);
            return false;
        }
        self.return_sum(r);
        true
    }

    /// A handler is about to run in a thread that was to ask (again) for the rest.
    pub fn give_up(&self, r: &mut Regs) {
        if !restarts::interrupted(r) {
            // Turned back to its `syscall`.
            r.rip += 2;
        }
        self.return_sum(r);
    }

    /// The state of a thread that need not stay, as the next host goes on with it.
    pub fn travels(&self, s: &mut ThreadState) {
        let regs = thread::from_words(&s.regs);
        let Some(mut r) = regs.filter(|_| self.why().is_none()) else {
            return;
        };
        self.give_up(&mut r);
        r.rax = restarts::ERESTARTNOINTR as u64;
        r.orig_rax = self.nr as u64;
        s.regs = thread::words(&r);
        (s.again, s.written) = (true, self.got);
    }

    fn return_sum(&self, r: &mut Regs) {
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] = self.args;
        (r.rax, r.orig_rax) = (self.got, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    const RECVFROM: u64 = libc::SYS_recvfrom as u64;

    /// What is cut of a call of ours on a stream.
    fn cut(r: &Regs) -> Option<PartialIo> {
        let (a, _b) = UnixStream::pair().expect("sockets");
        let (mut r, me) = (*r, std::process::id() as Pid);
        r.rdi = a.as_raw_fd() as u64;
        let mut rest = super::cut(me, me, &r)?;
        rest.args[0] = 0;
        Some(rest)
    }

    /// recv(fd, 1000, 10, flags) has returned `ret`.
    fn returned(ret: i64, flags: i32) -> Regs {
        let mut r = thread::from_words(&[0; 27]).expect("registers");
        (r.orig_rax, r.rax, r.rip) = (RECVFROM, ret as u64, 502);
        (r.rsi, r.rdx, r.r10) = (1000, 10, flags as u64);
        (r.r8, r.r9) = (2000, 3000);
        r
    }

    fn again(r: &mut Regs, ret: i64) {
        assert_eq!((r.rax, r.rip), (RECVFROM, 500));
        (r.orig_rax, r.rax, r.rip) = (RECVFROM, ret as u64, 502);
    }

    fn result(r: &Regs) -> (i64, u64, u64, u64) {
        assert_eq!((r.r8, r.r9), (2000, 3000));
        (r.rax as i64, r.rip, r.rsi, r.rdx)
    }

    #[test]
    fn only_an_incomplete_waitall_read_has_a_rest() {
        let all = libc::MSG_WAITALL;
        assert!(cut(&returned(4, all)).is_some());
        for (ret, flags) in [
            (10, all),
            (0, all),
            (-11, all),
            (-512, all),
            (4, 0),
            (4, all | libc::MSG_PEEK),
        ] {
            assert_eq!(cut(&returned(ret, flags)), None, "{ret} {flags}");
        }
    }

    #[test]
    fn the_rest_is_read_until_it_is_complete() {
        let mut r = returned(4, libc::MSG_WAITALL);
        let mut rest = cut(&r).expect("cut");
        rest.ask(1, &mut r);
        assert_eq!((r.rsi, r.rdx, r.r8), (1004, 6, 0));
        again(&mut r, -512);
        assert!(!rest.ended(1, &mut r, false));
        assert_eq!(r.rax as i64, -512);
        (r.rax, r.rip) = (RECVFROM, 500);
        again(&mut r, 1);
        assert!(!rest.ended(1, &mut r, false));
        assert_eq!((r.rsi, r.rdx), (1005, 5));
        again(&mut r, 5);
        assert!(rest.ended(1, &mut r, false));
        assert_eq!(result(&r), (10, 502, 1000, 10));
    }

    #[test]
    fn the_partial_count_is_returned_at_eof_or_before_a_handler() {
        for (ret, ends, want) in [
            (0, false, 4),
            (-104, false, 4),
            (-512, true, 4),
            (3, true, 7),
        ] {
            let mut r = returned(4, libc::MSG_WAITALL);
            let mut rest = cut(&r).expect("cut");
            rest.ask(1, &mut r);
            again(&mut r, ret);
            assert!(rest.ended(1, &mut r, ends), "{ret} {ends}");
            assert_eq!(result(&r), (want, 502, 1000, 10), "{ret} {ends}");
        }
    }

    #[test]
    fn a_partial_write_travels_with_the_registers_of_the_program() {
        let mut rest = PartialIo {
            nr: libc::SYS_write,
            args: [3, 1000, 10, 7, 2000, 3000],
            got: 4,
            want: 10,
            sends: true,
            asks: libc::SYS_write,
        };
        let mut r = returned(4, 7);
        rest.ask(1, &mut r);
        assert_eq!((r.rdi, r.rsi, r.rdx, r.rip), (3, 1004, 6, 500));
        assert_eq!(rest.why(), None);
        let mut s = ThreadState {
            regs: thread::words(&r),
            ..ThreadState::default()
        };
        rest.travels(&mut s);
        let away = thread::from_words(&s.regs).expect("registers");
        assert_eq!((s.written, away.rax as i64), (4, restarts::ERESTARTNOINTR));
        assert_eq!((away.orig_rax, away.rip), (1, 502));
        assert_eq!((away.rsi, away.rdx, away.r8), (1000, 10, 2000));
    }

    #[test]
    fn a_handler_before_the_rest_returns_the_partial_count() {
        let mut r = returned(4, libc::MSG_WAITALL);
        let mut rest = cut(&r).expect("cut");
        rest.ask(1, &mut r);
        let mut turned_back = r;
        rest.give_up(&mut turned_back);
        assert_eq!(result(&turned_back), (4, 502, 1000, 10));
        again(&mut r, -512);
        assert!(!rest.ended(1, &mut r, false));
        rest.give_up(&mut r);
        assert_eq!(result(&r), (4, 502, 1000, 10));
    }
}
