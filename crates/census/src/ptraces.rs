//! ptrace(2): requests without a row together with the state that they show. Tracer and traced process stay home.

const REASONS: &str = "crates/keeper/src/moves/eligibility.rs";
const TESTS: &[&str] = &["every_stay_reason_is_reported_with_remedy"];

use crate::Name::Ptrace;
use crate::Owner::{PendingSignal, Process, Thread};
use crate::{Row, carried, names, row, stays};

pub const ROWS: &[Row] = &[
    row(
        "ptrace-attach",
        Process,
        "begin and end of tracing",
        names![
            => Ptrace(0, "PTRACE_TRACEME"), Ptrace(16, "PTRACE_ATTACH"),
                Ptrace(17, "PTRACE_DETACH"), Ptrace(0x4206, "PTRACE_SEIZE"),
                Ptrace(8, "PTRACE_KILL")
        ],
        stays("Traced", REASONS),
        TESTS,
    ),
    row(
        "ptrace-resume",
        Thread,
        "how a traced thread goes on",
        names![
            => Ptrace(7, "PTRACE_CONT"), Ptrace(9, "PTRACE_SINGLESTEP"),
                Ptrace(24, "PTRACE_SYSCALL"), Ptrace(31, "PTRACE_SYSEMU"),
                Ptrace(32, "PTRACE_SYSEMU_SINGLESTEP"), Ptrace(33, "PTRACE_SINGLEBLOCK"),
                Ptrace(0x4207, "PTRACE_INTERRUPT"), Ptrace(0x4208, "PTRACE_LISTEN")
        ],
        stays("Traced", REASONS),
        TESTS,
    ),
    row(
        "ptrace-options",
        Thread,
        "options, event and system call of the last stop",
        names![
            => Ptrace(21, "PTRACE_OLDSETOPTIONS"), Ptrace(0x4200, "PTRACE_SETOPTIONS"),
                Ptrace(0x4201, "PTRACE_GETEVENTMSG"), Ptrace(0x420e, "PTRACE_GET_SYSCALL_INFO"),
                Ptrace(0x4212, "PTRACE_SET_SYSCALL_INFO")
        ],
        stays("Traced", REASONS),
        TESTS,
    ),
    row(
        "ptrace-memory",
        Process,
        "memory of the traced process",
        names![
            => Ptrace(1, "PTRACE_PEEKTEXT"), Ptrace(2, "PTRACE_PEEKDATA"),
                Ptrace(4, "PTRACE_POKETEXT"), Ptrace(5, "PTRACE_POKEDATA")
        ],
        stays("Traced", REASONS),
        TESTS,
    ),
    row(
        "ptrace-signals",
        PendingSignal,
        "siginfo of the stop, signals that wait, mask",
        names![
            => Ptrace(0x4202, "PTRACE_GETSIGINFO"), Ptrace(0x4203, "PTRACE_SETSIGINFO"),
                Ptrace(0x4209, "PTRACE_PEEKSIGINFO"), Ptrace(0x420a, "PTRACE_GETSIGMASK"),
                Ptrace(0x420b, "PTRACE_SETSIGMASK")
        ],
        carried("crates/migrate/src/image/sigs.rs"),
        &["queued", "signals"],
    ),
    row(
        "ptrace-single-step-flag",
        Thread,
        "the trap flag that a program sets itself",
        names![],
        carried("crates/tracee/src/inject.rs"),
        &["selfsteps"],
    ),
];
