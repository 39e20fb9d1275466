//! What a deputy has to do: the work that waits for it, and what it is doing.

#[cfg(test)]
mod tests;

use super::host_link::Post;
use crate::record::CallId;
use armento_abi::{Out, Restart};
use armento_migrate::image::restarts::{ERESTARTNOHAND, ERESTARTNOINTR};
use armento_model::Tid;
use armento_tracee::region::Slot;
use armento_wire::call::Call;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// ERESTARTNOINTR: not executed, issue it again.
pub const AGAIN: i64 = ERESTARTNOINTR;

/// Most calls that may wait for one deputy: its body has one at a time, the rest is our own housekeeping.
pub(super) const QUEUE_MAX: usize = 4096;

/// Called with the result of a part of a call and what it wrote.
pub type OnDone = Box<dyn FnOnce(i64, Vec<u8>) + Send>;

/// Something for the deputy to do.
pub enum Work {
    Call(Box<Call>),
    /// A call that its body does not wait for.
    Posted(Box<Call>, Post),
    /// A part of a call that we make in several: it is not turned back, and its result is ours.
    Part {
        call: Box<Call>,
        done: OnDone,
    },
    /// A call of our own; a thread of ours waits for it.
    Own {
        nr: i64,
        args: [u64; 6],
        done: Sender<i64>,
    },
    /// Housekeeping of memory that is not in use just now: may be forgotten.
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
    /// Whether a signal is ignored, for the exec that comes next: only that one waits for it.
    Ignore {
        sig: u64,
        yes: bool,
    },
    /// A clone: the child's slot, and where the result goes. `tid`: the number that it must have.
    Clone {
        flags: u64,
        tid: Option<Tid>,
        child: Box<Slot>,
        done: Sender<(i64, Box<Slot>)>,
    },
}

pub(super) enum Doing {
    Call {
        seq: u32,
        outs: Vec<Out>,
        nr: u16,
        args: [u64; 6],
        /// Its host wants to know what its descriptor refers to.
        facts: bool,
        /// The path that it looks up, if its host wants to know the directories on it.
        path: Option<Vec<u8>>,
        /// How many bytes it is to write, or to read, if it is such a call.
        payload: Option<u64>,
        /// We interrupted it when it had done a part of them.
        cut: bool,
        /// For the record, if its process has one: what it is, and when it was begun.
        recorded: Option<(CallId, Instant)>,
    },
    /// The call, should it have to be made again.
    Posted(Box<Call>, Post),
    Part(Vec<Out>, OnDone),
    Own(Option<Sender<i64>>),
    Clone(Box<Slot>, Sender<(i64, Box<Slot>)>),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) doing: Option<Doing>,
    pub(super) queue: VecDeque<Work>,
    /// When the call that is being restarted was to end.
    pub(super) deadline: Option<Instant>,
    /// Since when its thread stood still that leaves in the midst of a call; until that is issued again.
    pub(super) frozen_since: Option<Instant>,
    /// The thread's restart block was set by a call that we ran for the body: number and deadline.
    pub(super) block: Option<(u16, Option<Instant>)>,
    /// Where in the slot that call's results come to lie, whichever call continues it.
    pub(super) results: Vec<Out>,
    /// Addresses of the program that the deputy's restart block writes to: copied to the body.
    pub(super) kept: Option<(u64, usize)>,
    /// The slot of a child that it was making when it ended: it is not given to another
    /// (`keeper/src/calls/fork_and_map.rs`).
    pub(super) unborn: Option<Box<Slot>>,
}

impl State {
    /// Before everything but what an exec waits for, and posted calls.
    pub(super) fn push_first(&mut self, w: Work) {
        let before = |w: &&Work| matches!(w, Work::Ignore { .. } | Work::Posted(..));
        let at = self.queue.iter().take_while(before).count();
        self.queue.insert(at, w);
    }

    /// Results of what it does, or was to do, are dropped. Whether a posted call is among that.
    pub(super) fn over(&mut self) -> bool {
        let waits = |w: &Work| matches!(w, Work::Posted(..));
        let posted = self.queue.iter().any(waits) || matches!(self.doing, Some(Doing::Posted(..)));
        self.queue.clear();
        if let Some(Doing::Clone(child, _)) = self.doing.take() {
            self.unborn = Some(child);
        }
        posted
    }
}

/// What a call ends with that was turned back before it was made. One that sleeps would have been
/// interrupted, for its thread was in it already; any other is issued again whatever happens.
pub fn unmade_result(nr: u16) -> i64 {
    const SLEEPS: [i64; 4] = [
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_ppoll,
        libc::SYS_nanosleep,
    ];
    let blocks = armento_abi::row(nr.into()).is_some_and(|r| r.restart == Restart::Block);
    if blocks || SLEEPS.contains(&i64::from(nr)) || (libc::SYS_epoll_wait == i64::from(nr)) {
        ERESTARTNOHAND
    } else {
        ERESTARTNOINTR
    }
}
