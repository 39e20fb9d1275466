//! recv with MSG_WAITALL of a guest: home was woken by a signal that is nothing to the guest.
//!
//! From: `forward.rs`. A deputy is traced, so that any signal wakes it, and its call ends with what there was. Only
//! here is known whether the guest would have noticed: if not, home is asked for the rest.

use crate::forward;
use crate::shared::{Cell, Fix, Shared};
use armento_tracee::notify::Notice;
use std::sync::Arc;

/// What a guest asked for, and how much of it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    args: [u64; 6],
    got: u64,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Ask(Whole),
    Tell(i64),
}

pub fn fix(n: &Notice) -> Option<Fix> {
    let flags = n.args[3] as i32;
    let whole = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
    let (args, got) = (n.args, 0);
    (i64::from(n.nr) == libc::SYS_recvfrom && whole).then_some(Fix::Whole(Whole { args, got }))
}

impl Whole {
    /// `ends`: a signal waits that would have ended the call natively, or there is nobody to ask.
    fn next(mut self, ret: i64, ends: bool) -> Next {
        let again = forward::is_restart(ret);
        if self.got == 0 && ret <= 0 {
            return Next::Tell(ret);
        }
        self.got += ret.max(0) as u64;
        let asks = (ret > 0 || again) && self.got < self.args[2] && !ends;
        if asks {
            Next::Ask(self)
        } else {
            Next::Tell(self.got as i64)
        }
    }
}

/// A reply came. `None`: home was asked for the rest.
pub fn reply(sh: &Arc<Shared>, cell: &Arc<Cell>, id: u64, w: Whole, ret: i64) -> Option<i64> {
    let ends = || cell.proc.frozen() || forward::waits(cell, None);
    match w.next(ret, ends()) {
        Next::Tell(ret) => Some(ret),
        Next::Ask(w) => {
            let [fd, buf, len, flags, ..] = w.args;
            let n = Notice {
                id,
                nr: libc::SYS_recvfrom as i32,
                // A stream's sender was told already.
                args: [fd, buf + w.got, len - w.got, flags, 0, 0],
                ..Notice::default()
            };
            forward::send_fixed(sh, cell, &n, Fix::Whole(w));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_asked_for_unless_the_guest_would_have_noticed() {
        let w = |got| Whole {
            args: [3, 1000, 10, 0, 0, 0],
            got,
        };
        let check = |got, ret, ends, want| assert_eq!(w(got).next(ret, ends), want, "{got} {ret}");
        check(0, 10, false, Next::Tell(10));
        check(0, 4, false, Next::Ask(w(4)));
        check(0, 4, true, Next::Tell(4));
        check(4, 6, false, Next::Tell(10));
        check(4, 0, false, Next::Tell(4));
        check(4, -104, false, Next::Tell(4));
        check(4, -512, false, Next::Ask(w(4)));
        check(4, -512, true, Next::Tell(4));
        check(0, -512, false, Next::Tell(-512));
        check(0, -11, false, Next::Tell(-11));
    }
}
