//! What is left of a `recv` with MSG_WAITALL, or of a read from a terminal with MIN or a socket with SO_RCVLOWAT,
//! that a stop cut short.
//!
//! From: `led.rs`. The kernel says how much there was until then, where it would have waited for the rest.
//! So the thread asks for the rest, and is told the sum:
//!
//! ```text
//! recv(buf, 10) = 4 ──ask──► recv(buf + 4, 6) = 6 ──ended──► recv(buf, 10) = 10
//! ```

use armento_migrate::image::thread;
use armento_migrate::stop::{WHOLE_INPUT, WHOLE_MESSAGE};
use armento_model::Pid;
use armento_tracee::minimum;
use armento_tracee::trace::Regs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    nr: i64,
    got: u64,
    /// It waits until there is so much.
    want: u64,
    /// What the program passed: buffer, length, where the address goes.
    buf: u64,
    len: u64,
    from: (u64, u64),
}

/// Has the call of a thread ended with less than it waits for? KERNEL: recv(2), MSG_WAITALL; termios(3); socket(7).
pub fn cut(pid: Pid, r: &Regs) -> Option<Remainder> {
    let short = |want| (1..want as i64).contains(&(r.rax as i64));
    if !short(r.rdx) {
        return None;
    }
    let want = match r.orig_rax as i64 {
        libc::SYS_recvfrom if r.r10 as i32 & libc::MSG_PEEK != 0 => return None,
        libc::SYS_recvfrom if r.r10 as i32 & libc::MSG_WAITALL != 0 => r.rdx,
        // More than that the call for the rest would not get: it would wait for as much again.
        libc::SYS_read | libc::SYS_recvfrom => minimum::of(pid, r.rdi as i32)?.min(r.rdx),
        _ => return None,
    };
    short(want).then_some(Remainder {
        nr: r.orig_rax as i64,
        got: r.rax,
        want,
        buf: r.rsi,
        len: r.rdx,
        from: (r.r8, r.r9),
    })
}

impl Remainder {
    pub fn number(&self) -> i64 {
        self.nr
    }

    /// Why its process stays so long.
    pub fn why(&self) -> &'static str {
        match self.nr {
            libc::SYS_recvfrom if self.want == self.len => WHOLE_MESSAGE,
            _ => WHOLE_INPUT,
        }
    }

    /// Before: its call has ended. When it goes on it asks for the rest.
    pub fn ask(&self, r: &mut Regs) {
        (r.rsi, r.rdx) = (self.buf + self.got, self.want - self.got);
        // A stream's sender was told already.
        (r.r8, r.r9) = (0, 0);
        (r.rax, r.orig_rax) = (self.nr as u64, u64::MAX);
        r.rip -= 2;
    }

    /// The call for the rest ended, or was interrupted. `ends`: by something that is the program's business.
    /// True when there is nothing left to ask for.
    pub fn ended(&mut self, r: &mut Regs, ends: bool) -> bool {
        let ret = r.rax as i64;
        self.got += ret.max(0) as u64;
        if thread::interrupted(r) && !ends {
            // The kernel issues it again.
            return false;
        }
        if ret > 0 && self.got < self.want && !ends {
            self.ask(r);
            return false;
        }
        self.tell(r);
        true
    }

    /// A handler is about to run in a thread that was to ask (again) for the rest.
    pub fn give_up(&self, r: &mut Regs) {
        if !thread::interrupted(r) {
            // Turned back to its `syscall`.
            r.rip += 2;
        }
        self.tell(r);
    }

    fn tell(&self, r: &mut Regs) {
        (r.rsi, r.rdx) = (self.buf, self.len);
        (r.r8, r.r9) = self.from;
        (r.rax, r.orig_rax) = (self.got, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECVFROM: u64 = libc::SYS_recvfrom as u64;

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

    fn told(r: &Regs) -> (i64, u64, u64, u64) {
        assert_eq!((r.r8, r.r9), (2000, 3000));
        (r.rax as i64, r.rip, r.rsi, r.rdx)
    }

    #[test]
    fn only_the_whole_of_a_message_that_is_not_there_is_cut() {
        let all = libc::MSG_WAITALL;
        assert!(cut(1, &returned(4, all)).is_some());
        for (ret, flags) in [
            (10, all),
            (0, all),
            (-11, all),
            (-512, all),
            (4, 0),
            (4, all | libc::MSG_PEEK),
        ] {
            assert_eq!(cut(1, &returned(ret, flags)), None, "{ret} {flags}");
        }
    }

    #[test]
    fn the_rest_is_asked_for_until_it_is_there() {
        let mut r = returned(4, libc::MSG_WAITALL);
        let mut rest = cut(1, &r).expect("cut");
        rest.ask(&mut r);
        assert_eq!((r.rsi, r.rdx, r.r8), (1004, 6, 0));
        again(&mut r, -512);
        assert!(!rest.ended(&mut r, false));
        assert_eq!(r.rax as i64, -512);
        (r.rax, r.rip) = (RECVFROM, 500);
        again(&mut r, 1);
        assert!(!rest.ended(&mut r, false));
        assert_eq!((r.rsi, r.rdx), (1005, 5));
        again(&mut r, 5);
        assert!(rest.ended(&mut r, false));
        assert_eq!(told(&r), (10, 502, 1000, 10));
    }

    #[test]
    fn what_there_was_is_told_when_no_more_comes_or_a_handler_runs() {
        for (ret, ends, want) in [
            (0, false, 4),
            (-104, false, 4),
            (-512, true, 4),
            (3, true, 7),
        ] {
            let mut r = returned(4, libc::MSG_WAITALL);
            let mut rest = cut(1, &r).expect("cut");
            rest.ask(&mut r);
            again(&mut r, ret);
            assert!(rest.ended(&mut r, ends), "{ret} {ends}");
            assert_eq!(told(&r), (want, 502, 1000, 10), "{ret} {ends}");
        }
    }

    #[test]
    fn a_handler_may_come_before_the_rest_is_asked_for() {
        let mut r = returned(4, libc::MSG_WAITALL);
        let mut rest = cut(1, &r).expect("cut");
        rest.ask(&mut r);
        let mut turned_back = r;
        rest.give_up(&mut turned_back);
        assert_eq!(told(&turned_back), (4, 502, 1000, 10));
        again(&mut r, -512);
        assert!(!rest.ended(&mut r, false));
        rest.give_up(&mut r);
        assert_eq!(told(&r), (4, 502, 1000, 10));
    }
}
