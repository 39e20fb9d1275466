//! Decides where one call runs, depending on its arguments.

use crate::row::{Otherwise, Place};
use crate::x86_64::{nr, row, sub};

/// Where this call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Natively, in the body.
    Body,
    /// On the node of the body, by the host.
    Host,
    /// By the deputy.
    Home,
    /// At home, to which the process must return; the reason is for `armento why`.
    ComeHome(&'static str),
}

/// KERNEL: MSG_ZEROCOPY. The kernel would still read the slot after the call returned.
const MSG_ZEROCOPY: u64 = 0x400_0000;

/// Clocks of home for sleeping and timers: REALTIME, MONOTONIC, BOOTTIME, their alarms, TAI. CPU-time clocks do not
/// advance in an idle deputy.
const WALL_CLOCKS: &[u32] = &[0, 1, 7, 8, 9, 11];
/// CLOCK_THREAD_CPUTIME_ID: sleeping on it is EINVAL, which home can return as well.
const THREAD_CLOCK: u32 = 3;

/// Whether mmap(2) with these flags makes a shared mapping. MAP_SHARED_VALIDATE has the bits of both others.
pub fn maps_shared(flags: u64) -> bool {
    flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE
}

/// Decides for one call. Numbers without a row come home.
pub fn place_of(call: u64, args: &[u64; 6]) -> Verdict {
    let Some(row) = row(call) else {
        return Verdict::ComeHome("unknown system call");
    };
    match row.place {
        Place::Body => Verdict::Body,
        Place::BodyIf(cond, _) if cond.eval(args) => Verdict::Body,
        Place::Host | Place::BodyIf(_, Otherwise::Host) => Verdict::Host,
        Place::Home | Place::BodyIf(_, Otherwise::Home) => at_home(call, args),
        Place::ComeHome | Place::BodyIf(_, Otherwise::ComeHome) => {
            Verdict::ComeHome(if row.note.is_empty() {
                row.name
            } else {
                row.note
            })
        }
    }
}

/// Arguments that make a forwarded call impossible.
fn at_home(call: u64, args: &[u64; 6]) -> Verdict {
    let refused = match call {
        nr::SENDTO | nr::SENDMMSG => zero_copy(args[3]),
        nr::SENDMSG => zero_copy(args[2]),
        nr::TIMER_CREATE => {
            (!WALL_CLOCKS.contains(&(args[0] as u32))).then_some("a timer of CPU time")
        }
        nr::CLOCK_NANOSLEEP => {
            let clock = args[0] as u32;
            (!WALL_CLOCKS.contains(&clock) && clock != THREAD_CLOCK)
                .then_some("a sleep on a clock of CPU time")
        }
        nr::PERSONALITY => (args[0] as u32 != u32::MAX).then_some("changes its personality"),
        nr::SETSOCKOPT | nr::GETSOCKOPT => nested_option(call, args[1] as u32, args[2] as u32),
        _ => sub::shape(call, args).err(),
    };
    refused.map_or(Verdict::Home, Verdict::ComeHome)
}

fn zero_copy(flags: u64) -> Option<&'static str> {
    (flags & MSG_ZEROCOPY != 0).then_some("sends with MSG_ZEROCOPY")
}

/// Socket options with a value that contains pointers, or that map memory.
fn nested_option(call: u64, level: u32, option: u32) -> Option<&'static str> {
    const SOL_SOCKET: u32 = libc::SOL_SOCKET as u32;
    const SOL_TCP: u32 = libc::IPPROTO_TCP as u32;
    const SOL_IP: u32 = libc::IPPROTO_IP as u32;
    const SOL_IPV6: u32 = libc::IPPROTO_IPV6 as u32;
    const SOL_PACKET: u32 = libc::SOL_PACKET as u32;
    const SOL_XDP: u32 = libc::SOL_XDP as u32;
    const SOL_SCTP: u32 = libc::IPPROTO_SCTP as u32;
    let nested = match (level, option) {
        // SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF: a program behind a pointer.
        (SOL_SOCKET, 26 | 51) => true,
        // TCP_ZEROCOPY_RECEIVE maps pages when read, and is a plain int when set.
        (SOL_TCP, 35) => call == nr::GETSOCKOPT,
        // IPT_BASE_CTL, ARPT_BASE_CTL, EBT_BASE_CTL: whole tables with pointers to counters.
        (SOL_IP | SOL_IPV6, 64 | 65 | 96..=99 | 128..=131) => true,
        (SOL_PACKET | SOL_XDP | SOL_SCTP, _) => true,
        _ => false,
    };
    nested.then_some("a socket option with nested data")
}

/// Whether the deputy may execute this: rows of the table that are forwarded, or that the host forwards in part, with
/// arguments that home can serve.
pub(crate) fn served_at_home(call: u16, args: &[u64; 6]) -> bool {
    let forwarded = row(call.into()).is_some_and(|row| match row.place {
        Place::Home | Place::Host => true,
        // With these arguments it runs in the body, and would change the deputy.
        Place::BodyIf(cond, Otherwise::Host | Otherwise::Home) => !cond.eval(args),
        Place::Body | Place::ComeHome | Place::BodyIf(_, Otherwise::ComeHome) => false,
    });
    forwarded && at_home(call.into(), args) == Verdict::Home
}
