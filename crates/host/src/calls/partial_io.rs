//! Calls of a guest that home ended before all was done, where the guest would not have noticed.
//!
//! From: `forward.rs`. Next: home, which is asked for the rest.
//!
//! - A write to a pipe, a stream's socket or a terminal: a deputy is traced, so that any signal wakes it, and its call ends with
//!   what is put; or a move has broken it.
//! - recv with MSG_WAITALL on a stream: so too.
//!
//! Home says that it was so, and how much is done. Should the guest stop meanwhile, the part waits in its [`Cell`] or
//! travels, and the call that the kernel issues again is for the rest. A handler ends it with the part, as natively.

use crate::calls::forward;
use crate::state::shared::{BodyMem, Cell, Fix, Shared, lock};
use armento_abi::sends;
use armento_migrate::image::thread::{self, ERESTARTNOINTR};
use armento_tracee::notify::Notice;
use armento_tracee::region::DATA;
use armento_tracee::trace;
use std::sync::Arc;

/// A process comes home for more at once than a slot holds (`abi/src/marshal/packer.rs`), not for the rest of it.
const ASK_MAX: u64 = DATA / 2;

/// What a guest asked for, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The guest's call. That for the rest may be another.
    pub nr: i32,
    args: [u64; 6],
    got: u64,
    /// How much home was asked for.
    asked: Option<u64>,
}

/// Home's answer, for a call of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Result(i64),
    /// Interrupted, so many bytes were put, or got.
    Part(i64),
}

/// May the guest go on waiting?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    Waits,
    /// A signal waits that would have ended the call natively.
    Signalled,
    Stopped,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ask(Whole),
    Tell(i64),
    /// The kernel issues it again; so much is done.
    Again(u64),
}

pub fn fix(n: &Notice) -> Option<Fix> {
    let nr = n.nr as u64;
    (sends::gathers(nr, &n.args) || sends::sends(nr, &n.args)).then_some(Fix::Whole(Whole {
        nr: n.nr,
        args: n.args,
        got: 0,
        asked: None,
    }))
}

impl Whole {
    fn receives(&self) -> bool {
        i64::from(self.nr) == libc::SYS_recvfrom
    }

    /// `all`: how much the guest wants to be done.
    fn next(mut self, said: Said, all: u64, guest: impl FnOnce() -> Guest) -> Next {
        // What ended short without us met its end.
        let full = |ret: i64| ret > 0 && self.asked.is_none_or(|asked| ret as u64 >= asked);
        let (ret, goes_on) = match said {
            Said::Result(ret) => (ret, forward::is_restart(ret) || full(ret)),
            Said::Part(done) => (done, true),
        };
        if self.got == 0 && ret <= 0 {
            return Next::Tell(ret);
        }
        self.got += ret.max(0) as u64;
        let more = self.got < all && goes_on;
        match guest() {
            Guest::Waits if more => Next::Ask(self),
            Guest::Stopped if more => Next::Again(self.got),
            _ => Next::Tell(self.got as i64),
        }
    }

    /// The call for what is left.
    fn rest(&self, cell: &Cell) -> Option<(u64, [u64; 6])> {
        let [fd, buf, len, flags, ..] = self.args;
        if self.receives() {
            // A stream's sender was told already.
            let args = [fd, buf + self.got, len - self.got, flags, 0, 0];
            return Some((self.nr as u64, args));
        }
        let mut mem = BodyMem(cell);
        let (nr, mut args) = sends::rest(self.nr as u64, &self.args, &mut mem, self.got)?;
        args[2] = args[2].min(ASK_MAX);
        Some((nr, args))
    }

    /// How much the guest wants to be done.
    fn all(&self, cell: &Cell) -> u64 {
        if self.receives() {
            return self.args[2];
        }
        let all = sends::payload(self.nr as u64, &self.args, &mut BodyMem(cell));
        all.unwrap_or(0)
    }
}

/// A reply came; `ret` is its result, `asked` how much home was to put or get. `part`: it was interrupted. `None`: home
/// was asked for the rest.
pub fn reply(
    sh: &Arc<Shared>,
    (cell, id): (&Arc<Cell>, u64),
    mut w: Whole,
    asked: Option<u64>,
    (part, ret): (bool, i64),
) -> Option<i64> {
    w.asked = asked;
    if w.got == 0 && !part {
        // Nearly always: then nobody looks further.
        return Some(ret);
    }
    let guest = || match () {
        () if cell.proc.frozen() => Guest::Stopped,
        () if forward::waits(cell, None) => Guest::Signalled,
        () => Guest::Waits,
    };
    let said = if part {
        Said::Part(ret)
    } else {
        Said::Result(ret)
    };
    match w.next(said, w.all(cell), guest) {
        Next::Tell(ret) => Some(ret),
        Next::Ask(w) => ask(sh, cell, id, w),
        Next::Again(done) => {
            lock(&cell.st).written = done;
            Some(ERESTARTNOINTR)
        }
    }
}

/// A call that the kernel has issued again: if a part of it is done, home is asked for the rest.
pub fn go_on(sh: &Arc<Shared>, cell: &Arc<Cell>, n: &Notice) -> bool {
    let mut st = lock(&cell.st);
    let got = std::mem::take(&mut st.written);
    let again = st.again == Some(n.nr);
    drop(st);
    if got == 0 || !again {
        return false;
    }
    let w = Whole {
        nr: n.nr,
        args: n.args,
        got,
        asked: None,
    };
    if let Some(ret) = ask(sh, cell, n.id, w) {
        sh.listener.reply(n.id, ret);
    }
    true
}

/// `Some`: there is nothing left to ask for.
fn ask(sh: &Arc<Shared>, cell: &Arc<Cell>, id: u64, w: Whole) -> Option<i64> {
    let rest = w.rest(cell).and_then(|(nr, args)| {
        let plan = armento_abi::pack(nr, &args, &mut BodyMem(cell), DATA as usize);
        Some((nr, args, plan.ok()?))
    });
    let Some((nr, args, plan)) = rest else {
        return Some(w.got as i64);
    };
    let n = Notice {
        id,
        nr: nr as i32,
        args,
        ..Notice::default()
    };
    forward::post(sh, cell, &n, plan, None, 0, Fix::Whole(w));
    None
}

/// A handler is about to run in a stopped thread: its call ends with what is put.
pub fn give_up(cell: &Cell, written: u64) {
    let Ok(mut r) = trace::regs(cell.here) else {
        return;
    };
    if thread::turned_back(cell.here, &r) {
        r.rip += 2;
    } else if !thread::interrupted(&r) {
        return;
    }
    (r.rax, r.orig_rax) = (written, u64::MAX);
    // One that died meanwhile needs nothing.
    let _ = trace::set_regs(cell.here, &r);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nr: i64, got: u64, asked: Option<u64>) -> Whole {
        Whole {
            nr: nr as i32,
            args: [3, 1000, 10, 0, 0, 0],
            got,
            asked,
        }
    }

    #[test]
    fn the_rest_is_asked_for_unless_the_guest_would_have_noticed() {
        let w = |got| of(libc::SYS_recvfrom, got, Some(10 - got));
        let check = |got, said, guest, want| {
            let next = w(got).next(said, 10, || guest);
            assert_eq!(next, want, "{got} {said:?} {guest:?}");
        };
        let asks = |got, asked| Next::Ask(of(libc::SYS_recvfrom, got, Some(asked)));
        let (waits, signalled) = (Guest::Waits, Guest::Signalled);
        let (said, part) = (Said::Result, Said::Part);
        check(0, said(10), waits, Next::Tell(10));
        // The end of a stream, or a datagram.
        check(0, said(4), waits, Next::Tell(4));
        check(0, part(4), waits, asks(4, 10));
        check(0, part(4), signalled, Next::Tell(4));
        check(0, part(4), Guest::Stopped, Next::Again(4));
        check(4, said(6), waits, Next::Tell(10));
        check(4, said(0), waits, Next::Tell(4));
        check(4, said(-104), waits, Next::Tell(4));
        check(4, said(-512), waits, asks(4, 6));
        check(4, said(-512), signalled, Next::Tell(4));
        check(4, said(-512), Guest::Stopped, Next::Again(4));
        check(0, said(-512), waits, Next::Tell(-512));
        check(0, said(-11), waits, Next::Tell(-11));
    }

    #[test]
    fn a_write_goes_on_behind_what_is_put() {
        let w = |got, asked| of(libc::SYS_write, got, Some(asked));
        let check = |got, asked, said, guest, want| {
            let next = w(got, asked).next(said, 10, || guest);
            assert_eq!(next, want, "{got} {asked} {said:?} {guest:?}");
        };
        let (waits, signalled, stopped) = (Guest::Waits, Guest::Signalled, Guest::Stopped);
        check(0, 10, Said::Part(4), waits, Next::Ask(w(4, 10)));
        check(0, 10, Said::Part(4), signalled, Next::Tell(4));
        check(0, 10, Said::Part(4), stopped, Next::Again(4));
        check(4, 6, Said::Part(2), stopped, Next::Again(6));
        check(4, 6, Said::Result(6), waits, Next::Tell(10));
        check(4, 6, Said::Result(6), stopped, Next::Tell(10));
        check(4, 6, Said::Result(-513), stopped, Next::Again(4));
        check(4, 6, Said::Result(-512), signalled, Next::Tell(4));
        check(4, 6, Said::Result(-32), waits, Next::Tell(4));
        // Its own end, and a slot that was too small.
        check(0, 10, Said::Result(4), waits, Next::Tell(4));
        check(0, 4, Said::Result(4), waits, Next::Ask(w(4, 4)));
    }
}
