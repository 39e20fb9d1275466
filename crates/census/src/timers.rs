//! Timers and clocks.

const EVENTS: &str = "crates/abi/src/x86_64/events.rs";

use crate::Name::{Call, Proc};
use crate::Owner::{Process, Timer};
use crate::{Row, at_home, carried, manual, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "timer-posix",
        Timer,
        "timers of timer_create on clocks of time",
        names![
            signal_struct: next_posix_timer_id posix_timers posix_timer_id
            => Proc("timers"), Call("timer_create"), Call("timer_settime")
        ],
        at_home(EVENTS),
        &["timers", "timerthreads"],
    ),
    row(
        "timer-overruns",
        Timer,
        "expirations that one signal stands for, and signals of timers that are ignored",
        names![signal_struct: ignored_posix_timers => Call("timer_getoverrun")],
        carried("crates/migrate/src/image/timers.rs"),
        &["timers"],
    ),
    row(
        "timer-overruns-lost",
        Timer,
        "the overrun that a handler asks for while the next signal waits already",
        names![],
        manual(
            "docs/manual/differences.md",
            "may return 0 after a move: the kernel keeps the count of the last signal only, and clears it when a timer is set",
        ),
        &["timers"],
    ),
    row(
        "timer-posix-cpu",
        Timer,
        "timers of timer_create on clocks of CPU time",
        names![
            task_struct: posix_cputimers posix_cputimers_work;
            signal_struct: posix_cputimers cputimer
        ],
        stays("UnsupportedCall", "crates/keeper/src/moves/eligibility.rs"),
        &["profiles"],
    ),
    row(
        "timer-real",
        Timer,
        "ITIMER_REAL, alarm",
        names![
            signal_struct: real_timer it_real_incr
            => Call("setitimer"), Call("alarm")
        ],
        at_home(EVENTS),
        &["timers", "pelted"],
    ),
    row(
        "timer-cpu",
        Timer,
        "ITIMER_VIRTUAL, ITIMER_PROF",
        names![signal_struct: it],
        carried("crates/migrate/src/image/itimers.rs"),
        &["profiles"],
    ),
    row(
        "timer-cpu-at-home",
        Timer,
        "CPU clocks as a process at home reads them after it was away",
        names![],
        manual(
            "docs/manual/run.md",
            "a program that did not read its CPU time away reads at home that spent at home",
        ),
        &["profiles"],
    ),
    row(
        "timer-waits",
        Timer,
        "time that is left of waits under way",
        names![=> Call("nanosleep"), Call("clock_nanosleep"), Call("poll")],
        carried("crates/keeper/src/restart/wait_deadlines.rs"),
        &["timers", "restarts", "timerthreads"],
    ),
    row(
        "timer-alarm-clocks",
        Timer,
        "timers that wake the machine (CLOCK_REALTIME_ALARM)",
        names![],
        stays("UnsupportedCall", "crates/abi/src/place.rs"),
        &["rarecalls"],
    ),
    row(
        "clock-monotonic",
        Process,
        "monotonic and boot time go on",
        names![=> Call("clock_gettime"), Call("gettimeofday"), Call("time")],
        carried("crates/host/src/home/first_connection.rs"),
        &["clocks"],
    ),
    row(
        "clock-wall",
        Process,
        "wall time",
        names![=> Call("clock_settime"), Call("adjtimex")],
        stays("ClocksApart", "crates/noded/src/work/clocks.rs"),
        &["every_stay_reason_is_reported_with_remedy"],
    ),
    row(
        "clock-tai",
        Process,
        "CLOCK_TAI's offset, CLOCK_MONOTONIC_RAW's rate, resolution of coarse clocks",
        names![=> Call("clock_getres")],
        manual(
            "docs/manual/differences.md",
            "the node's own: no namespace has them",
        ),
        &["rarecalls"],
    ),
];
