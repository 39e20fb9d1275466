//! Signals. Handlers, masks and stacks are in the body; signals are sent at home.

use crate::Arg::{Fd, In, Out, Val};
use crate::Cond::{Bits, Not};
use crate::Len::Const;
use crate::row::{Otherwise, Row, body, body_if, home, host};

/// Home needs to know whether SIGCHLD is ignored: this decides whether children become zombies.
const NOT_SIGCHLD: crate::Cond = Not(&Bits {
    arg: 0,
    mask: u32::MAX,
    value: 17,
});
const SIGINFO: crate::Arg = In(Const(128));
/// sizeof(struct kernel_sigaction)
const SIGACTION: &[crate::Arg] = &[Val, In(Const(32)), Out(Const(32)), Val];

pub const ROWS: &[Row] = &[
    body_if(
        13,
        "rt_sigaction",
        &NOT_SIGCHLD,
        "the signal is not SIGCHLD",
        Otherwise::Host,
        SIGACTION,
    )
    .note("the disposition of SIGCHLD is kept at home too"),
    body(14, "rt_sigprocmask"),
    body(15, "rt_sigreturn"),
    body(34, "pause"),
    home(62, "kill", &[Val, Val]),
    body(127, "rt_sigpending"),
    host(128, "rt_sigtimedwait", &[])
        .eintr()
        .note("a body call; the host looks at the siginfo it returns"),
    home(129, "rt_sigqueueinfo", &[Val, Val, SIGINFO]),
    body(130, "rt_sigsuspend"),
    body(131, "sigaltstack"),
    home(200, "tkill", &[Val, Val]),
    host(219, "restart_syscall", &[]).block(),
    home(234, "tgkill", &[Val, Val, Val]),
    home(297, "rt_tgsigqueueinfo", &[Val, Val, Val, SIGINFO]),
    home(424, "pidfd_send_signal", &[Fd, Val, SIGINFO, Val]),
];
