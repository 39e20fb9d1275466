//! Waiting and time: poll, select, epoll, sleeps, timers, clocks.

use crate::Arg::{Fd, Fds, In, InOut, Mask, Out, Path, Timeout, Val};
use crate::Cond::OneOf;
use crate::Len::{Arg as Bytes, ArgTimes, Const, Intr, RetTimes};
use crate::row::{Otherwise, Row, body, body_if, gone, home, host};

/// REALTIME, MONOTONIC, MONOTONIC_RAW, REALTIME_COARSE, MONOTONIC_COARSE, BOOTTIME, TAI: all but CPU-time clocks, which
/// only the host can continue.
const WALL: crate::Cond = OneOf {
    arg: 0,
    set: &[0, 1, 4, 5, 6, 7, 11],
};
const WALL_WORDS: &str = "the clock is neither one of CPU time nor an alarm";
const CPU_CLOCKS: &str = "clocks of CPU time are answered by the host, with carried sums";
const MASK_NOTE: &str = "the signal mask is set by the engine, not sent";

/// ITIMER_VIRTUAL and ITIMER_PROF.
const CPU_ITIMER: &crate::Cond = &crate::Cond::OneOf {
    arg: 0,
    set: &[1, 2],
};
const ITIMER_WORDS: &str = "the timer is one of CPU time";
const TIMESPEC: crate::Arg = In(Const(16));
const ITIMER: crate::Arg = In(Const(32));
const OLD_ITIMER: crate::Arg = Out(Const(32));
const EVENTS: crate::Arg = Out(RetTimes(2, 12));

pub const ROWS: &[Row] = &[
    home(7, "poll", &[InOut(ArgTimes(1, 8)), Val, Val]).block(),
    home(23, "select", &[Val, Fds, Fds, Fds, Timeout]),
    home(35, "nanosleep", &[TIMESPEC, Out(Intr(16))]).block(),
    body_if(
        36,
        "getitimer",
        CPU_ITIMER,
        ITIMER_WORDS,
        Otherwise::Home,
        &[Val, OLD_ITIMER],
    ),
    home(37, "alarm", &[Val]),
    host(38, "setitimer", &[Val, ITIMER, OLD_ITIMER])
        .note("timers of CPU time run where the body runs, and an exec with one comes home"),
    body(96, "gettimeofday"),
    home(159, "adjtimex", &[InOut(Const(208))]),
    home(164, "settimeofday", &[TIMESPEC, In(Const(8))]),
    body(201, "time"),
    home(213, "epoll_create", &[Val]),
    gone(214, "epoll_ctl_old"),
    gone(215, "epoll_wait_old"),
    home(222, "timer_create", &[Val, In(Const(64)), Out(Const(4))])
        .note("for a timer of CPU time the process comes home, and stays while it has it"),
    home(223, "timer_settime", &[Val, Val, ITIMER, OLD_ITIMER]),
    home(224, "timer_gettime", &[Val, OLD_ITIMER]),
    home(225, "timer_getoverrun", &[Val]),
    home(226, "timer_delete", &[Val]),
    home(227, "clock_settime", &[Val, TIMESPEC]),
    body_if(
        228,
        "clock_gettime",
        &WALL,
        WALL_WORDS,
        Otherwise::Host,
        &[Val, Out(Const(16))],
    )
    .note(CPU_CLOCKS),
    body_if(
        229,
        "clock_getres",
        &WALL,
        WALL_WORDS,
        Otherwise::Host,
        &[Val, Out(Const(16))],
    ),
    home(230, "clock_nanosleep", &[Val, Val, TIMESPEC, Out(Intr(16))])
        .block()
        .note("sleeps on clocks of CPU time come home"),
    home(232, "epoll_wait", &[Fd, EVENTS, Val, Val]).eintr(),
    home(233, "epoll_ctl", &[Fd, Val, Fd, In(Const(12))]),
    home(270, "pselect6", &[Val, Fds, Fds, Fds, Timeout, Mask]).note(MASK_NOTE),
    home(
        271,
        "ppoll",
        &[InOut(ArgTimes(1, 8)), Val, Timeout, Mask, Val],
    )
    .note(MASK_NOTE),
    home(281, "epoll_pwait", &[Fd, EVENTS, Val, Val, Mask, Val])
        .eintr()
        .note(MASK_NOTE),
    home(282, "signalfd", &[Fd, In(Bytes(2)), Val])
        .note("signals of open signalfds are held back from the body"),
    home(283, "timerfd_create", &[Val, Val]),
    home(284, "eventfd", &[Val]),
    home(286, "timerfd_settime", &[Fd, Val, ITIMER, OLD_ITIMER]),
    home(287, "timerfd_gettime", &[Fd, OLD_ITIMER]),
    home(289, "signalfd4", &[Fd, In(Bytes(2)), Val, Val])
        .note("signals of open signalfds are held back from the body"),
    home(290, "eventfd2", &[Val, Val]),
    home(291, "epoll_create1", &[Val]),
    home(305, "clock_adjtime", &[Val, InOut(Const(208))]),
    home(441, "epoll_pwait2", &[Fd, EVENTS, Val, TIMESPEC, Mask, Val])
        .eintr()
        .note(MASK_NOTE),
    // Message queues wait with absolute times, so a restarted call waits no longer.
    home(240, "mq_open", &[Path, Val, Val, In(Const(64))]),
    home(241, "mq_unlink", &[Path]),
    home(242, "mq_timedsend", &[Fd, In(Bytes(2)), Val, Val, TIMESPEC]),
    home(
        243,
        "mq_timedreceive",
        &[Fd, Out(crate::Len::Ret(2)), Val, Out(Const(4)), TIMESPEC],
    ),
    home(244, "mq_notify", &[Fd, In(Const(64))]).note("SIGEV_THREAD comes home"),
    home(245, "mq_getsetattr", &[Fd, In(Const(64)), Out(Const(64))]),
    host(100, "times", &[Out(Const(32))])
        .note("CPU time used away is added by the host, of children at home"),
];
