//! A call that home ended before all bytes were done: whether the rest is asked for. Pure; `calls/partial_io.rs` acts.

use super::restart::is_restart;

/// What a guest asked for, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialIo {
    /// The guest's call. That for the rest may be another.
    pub nr: i32,
    pub args: [u64; 6],
    pub done: u64,
    /// How much home was asked for.
    pub asked: Option<u64>,
}

/// Home's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Result(i64),
    /// Interrupted after so many bytes.
    Interrupted(i64),
}

/// May the guest go on waiting?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    Waits,
    /// A signal is pending that would have ended the call natively.
    Signalled,
    Stopped,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    AskForRest(PartialIo),
    Return(i64),
    /// The kernel issues it again; so much is done.
    IssueAgain(u64),
}

impl PartialIo {
    pub fn receives(&self) -> bool {
        i64::from(self.nr) == libc::SYS_recvfrom
    }

    /// `all`: how many bytes the guest wants.
    pub fn next(mut self, answer: Answer, all: u64, guest: impl FnOnce() -> Guest) -> Next {
        // A result below what was asked for is the end of the stream, or an error.
        let full = |ret: i64| ret > 0 && self.asked.is_none_or(|asked| ret as u64 >= asked);
        let (ret, goes_on) = match answer {
            Answer::Result(ret) => (ret, is_restart(ret) || full(ret)),
            Answer::Interrupted(done) => (done, true),
        };
        if self.done == 0 && ret <= 0 {
            return Next::Return(ret);
        }
        self.done += ret.max(0) as u64;
        let more = self.done < all && goes_on;
        match guest() {
            Guest::Waits if more => Next::AskForRest(self),
            Guest::Stopped if more => Next::IssueAgain(self.done),
            _ => Next::Return(self.done as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nr: i64, done: u64, asked: Option<u64>) -> PartialIo {
        PartialIo {
            nr: nr as i32,
            args: [3, 1000, 10, 0, 0, 0],
            done,
            asked,
        }
    }

    #[test]
    fn the_rest_is_asked_for_unless_the_guest_would_have_noticed() {
        let w = |done| of(libc::SYS_recvfrom, done, Some(10 - done));
        let check = |done, answer, guest, want| {
            let next = w(done).next(answer, 10, || guest);
            assert_eq!(next, want, "{done} {answer:?} {guest:?}");
        };
        let asks = |done, asked| Next::AskForRest(of(libc::SYS_recvfrom, done, Some(asked)));
        let (waits, signalled) = (Guest::Waits, Guest::Signalled);
        let (result, part) = (Answer::Result, Answer::Interrupted);
        check(0, result(10), waits, Next::Return(10));
        // The end of a stream, or a datagram.
        check(0, result(4), waits, Next::Return(4));
        check(0, part(4), waits, asks(4, 10));
        check(0, part(4), signalled, Next::Return(4));
        check(0, part(4), Guest::Stopped, Next::IssueAgain(4));
        check(4, result(6), waits, Next::Return(10));
        check(4, result(0), waits, Next::Return(4));
        check(4, result(-104), waits, Next::Return(4));
        check(4, result(-512), waits, asks(4, 6));
        check(4, result(-512), signalled, Next::Return(4));
        check(4, result(-512), Guest::Stopped, Next::IssueAgain(4));
        check(0, result(-512), waits, Next::Return(-512));
        check(0, result(-11), waits, Next::Return(-11));
    }

    #[test]
    fn a_write_continues_behind_the_bytes_that_were_written() {
        let w = |done, asked| of(libc::SYS_write, done, Some(asked));
        let check = |done, asked, answer, guest, want| {
            let next = w(done, asked).next(answer, 10, || guest);
            assert_eq!(next, want, "{done} {asked} {answer:?} {guest:?}");
        };
        let (waits, signalled, stopped) = (Guest::Waits, Guest::Signalled, Guest::Stopped);
        check(
            0,
            10,
            Answer::Interrupted(4),
            waits,
            Next::AskForRest(w(4, 10)),
        );
        check(0, 10, Answer::Interrupted(4), signalled, Next::Return(4));
        check(0, 10, Answer::Interrupted(4), stopped, Next::IssueAgain(4));
        check(4, 6, Answer::Interrupted(2), stopped, Next::IssueAgain(6));
        check(4, 6, Answer::Result(6), waits, Next::Return(10));
        check(4, 6, Answer::Result(6), stopped, Next::Return(10));
        check(4, 6, Answer::Result(-513), stopped, Next::IssueAgain(4));
        check(4, 6, Answer::Result(-512), signalled, Next::Return(4));
        check(4, 6, Answer::Result(-32), waits, Next::Return(4));
        // The file's own end, and a slot that was too small.
        check(0, 10, Answer::Result(4), waits, Next::Return(4));
        check(0, 4, Answer::Result(4), waits, Next::AskForRest(w(4, 4)));
    }
}
