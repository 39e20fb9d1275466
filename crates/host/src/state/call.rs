//! The call that a guest thread is in, or was interrupted in.

use super::descriptors::Stamp;
use super::futex_wait::FutexWait;
use super::partial_io::PartialIo;
use super::socket_polls::PollWatch;
use armento_abi::Plan;
use armento_tracee::notify::Notice;
use armento_wire::sockets::EndId;
use armento_wire::talk::Posted;
use std::sync::Arc;
use std::time::Instant;

#[derive(Default)]
pub struct CallState {
    pub waiting: Option<Waiting>,
    pub seq: u32,
    /// What was posted before the call under way was sent.
    pub posted_before: Posted,
    /// When the call under way was sent home.
    pub sent: Option<Instant>,
    /// Time spent, since the last report of usage, waiting for calls that home answered at once.
    pub asked_ns: u64,
    /// What `Process::signals_queued` was at the last call.
    pub signals: u64,
    /// The kernel will issue this call again after an interruption without handler.
    pub again: Option<i32>,
    /// … and the thread slept in it already.
    pub slept: bool,
    /// … and so many bytes of it are done.
    pub done: u64,
    /// The interrupted call lives in the deputy's restart block.
    pub at_deputy: bool,
    /// The call under way waits under this mask instead of the thread's own.
    pub wait_mask: Option<u64>,
    /// The thread has that mask itself, until a signal that it lets in is delivered; this is its own.
    pub own_mask: Option<u64>,
    /// In a sigtimedwait that is traced to its end: where its siginfo goes, and whether it has begun.
    pub sigwait: Option<(u64, bool)>,
    pub futex_wait: FutexWait,
    /// How many polls in turn were answered from direct connections, without asking home of the others.
    pub polled_alone: u32,
    /// What the call that is sent next asks beside its result.
    pub ask: Ask,
    /// What the call under way asks, and what was known when it was sent.
    pub asked: Option<Asked>,
}

/// What home is to say beside the result of a call.
#[derive(Clone, Copy, Default)]
pub struct Ask {
    /// What its descriptor refers to.
    pub facts: bool,
    /// The directories on its path.
    pub names: bool,
}

/// A call that asks about its descriptor.
#[derive(Clone, Copy)]
pub struct Asked {
    /// Its number.
    pub seq: u32,
    pub descriptors: Stamp,
    /// How often all read-ahead had been ended.
    pub ended: u64,
    /// How often all files that were open here had been given up.
    pub direct: u64,
}

/// Why a thread waits in its notification.
pub enum Waiting {
    /// For the deputy.
    Call {
        id: u64,
        seq: u32,
        plan: Box<Plan>,
        then: Then,
    },
    /// For the process to come home or move; it is issued again afterwards.
    Parked { id: u64 },
    /// For a fork, mapping or exit that the host carries out.
    Special,
    /// For bytes, or for room, of a connection that goes directly to another host.
    Socket { id: u64, end: EndId },
}

/// What to do with a reply beside handing it on.
pub enum Then {
    Nothing,
    /// Return this instead: it was a call of ours behind that of the guest.
    Return(i64),
    /// Add what the process, or the thread, used away to a struct rusage or tms at this address.
    Rusage(u64),
    ThreadRusage(u64),
    Times(u64),
    /// timer_getoverrun: what was delivered here counts, not what the deputy took.
    Overrun(i32),
    /// timer_delete: a signal of this timer that is pending here is void.
    TimerGone(i32),
    /// recv with MSG_WAITALL, and what writes bytes: an answer below the length may be no end.
    PartialIo(PartialIo),
    /// Set the same limit for the body: resource, soft, hard.
    Limit(u32, u64, u64),
    /// The new descriptor has the description of this one.
    Duplicated(i32),
    /// All that was posted is made: this call goes on, with a file that is open here.
    Direct(Notice),
    /// A poll of the descriptors that are home's, among others whose connections are direct.
    Polled(Arc<PollWatch>),
    /// Then run the call at the body as well (SIGCHLD's disposition).
    RunHere,
}
