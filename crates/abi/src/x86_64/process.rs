//! Fork, exec, exit, identity, scheduling, limits.

use crate::Arg::{Fd, In, InOut, Out, Path, Strs, Sub, Val};
use crate::Cond::OneOf;
use crate::Len::{ArgTimes, Const, Head, Hit, RetInt, RetTimes, Uint};
use crate::row::{Otherwise, Row, body, body_if, come, home, host};

const RUSAGE: crate::Arg = Out(Const(144));
const LIMIT: crate::Arg = Out(Const(16));
const NEW_LIMIT: crate::Arg = In(Const(16));
const ID: crate::Arg = Out(Const(4));
const SCHED: &str = "holds for the deputy; the body is scheduled by the farm";
const SCHED_PARAM: u32 = 4;
/// Bytes of the largest supported CPU mask: NR_CPUS 8192.
const CPUS: u32 = 1024;

/// PR_GET_TID_ADDRESS, PR_GET_AUXV, PR_SET_VMA.
const PRCTL: crate::Cond = OneOf {
    arg: 0,
    set: &[40, 0x4155_5856, 0x5356_4d41],
};

/// ARCH_SET_GS, SET_FS, GET_FS, GET_GS; ARCH_GET_XCOMP_SUPP and _PERM; 0x3001 is
/// ARCH_CET_STATUS of older C libraries, which every stock kernel refuses.
const ARCH: crate::Cond = OneOf {
    arg: 0,
    set: &[0x1001, 0x1002, 0x1003, 0x1004, 0x1021, 0x1022, 0x3001],
};

pub const ROWS: &[Row] = &[
    body(24, "sched_yield"),
    body(39, "getpid").note("answers the home pid"),
    host(56, "clone", &[]),
    host(57, "fork", &[]),
    host(58, "vfork", &[]),
    host(59, "execve", &[Path, Strs, Strs]).note("executed at home; the new image is placed again"),
    body(60, "exit").note("ends the thread"),
    home(61, "wait4", &[Val, Out(Hit(4)), Val, Out(Hit(144))])
        .note("CPU time that the child used away is added at home"),
    host(98, "getrusage", &[Val, RUSAGE])
        .note("CPU time used away is added by the host, of children at home"),
    come(101, "ptrace", "traces or is traced"),
    home(102, "getuid", &[]),
    home(104, "getgid", &[]),
    home(105, "setuid", &[Val]),
    home(106, "setgid", &[Val]),
    home(107, "geteuid", &[]),
    home(108, "getegid", &[]),
    home(109, "setpgid", &[Val, Val]),
    home(110, "getppid", &[]),
    home(111, "getpgrp", &[]),
    home(112, "setsid", &[]),
    home(113, "setreuid", &[Val, Val]),
    home(114, "setregid", &[Val, Val]),
    home(115, "getgroups", &[Val, Out(RetTimes(0, 4))]),
    home(116, "setgroups", &[Val, In(ArgTimes(0, 4))]),
    home(117, "setresuid", &[Val, Val, Val]),
    home(118, "getresuid", &[ID, ID, ID]),
    home(119, "setresgid", &[Val, Val, Val]),
    home(120, "getresgid", &[ID, ID, ID]),
    home(121, "getpgid", &[Val]),
    home(122, "setfsuid", &[Val]),
    home(123, "setfsgid", &[Val]),
    home(124, "getsid", &[Val]),
    home(125, "capget", &[InOut(Const(8)), InOut(Const(24))]),
    home(126, "capset", &[InOut(Const(8)), In(Const(24))]),
    home(135, "personality", &[Val]).note("only asking; a change comes home"),
    home(140, "getpriority", &[Val, Val]),
    home(141, "setpriority", &[Val, Val, Val])
        .note("the host gives the body the same, within 0.2 s"),
    home(142, "sched_setparam", &[Val, In(Const(SCHED_PARAM))]).note(SCHED),
    home(143, "sched_getparam", &[Val, Out(Const(SCHED_PARAM))]),
    home(
        144,
        "sched_setscheduler",
        &[Val, Val, In(Const(SCHED_PARAM))],
    )
    .note(SCHED),
    home(145, "sched_getscheduler", &[Val]),
    home(146, "sched_get_priority_max", &[Val]),
    home(147, "sched_get_priority_min", &[Val]),
    home(148, "sched_rr_get_interval", &[Val, Out(Const(16))]),
    home(97, "getrlimit", &[Val, LIMIT]),
    home(160, "setrlimit", &[Val, NEW_LIMIT]).note("the host gives the body the same"),
    come(154, "modify_ldt", "segments do not travel"),
    body_if(
        157,
        "prctl",
        &PRCTL,
        "it names memory, or asks for the thread's address or the auxiliary vector",
        Otherwise::Home,
        &[Val, Sub, Val, Val, Val],
    )
    .note("names of threads are home's; options outside the sub-table come home"),
    body_if(
        158,
        "arch_prctl",
        &ARCH,
        "it is about FS or GS, or asks which features are permitted",
        Otherwise::ComeHome,
        &[],
    ),
    body(186, "gettid").note("answers the home tid"),
    home(203, "sched_setaffinity", &[Val, Val, In(Uint(1, CPUS))]).note(SCHED),
    home(204, "sched_getaffinity", &[Val, Val, Out(RetInt(1))]).note("answers for home"),
    body(218, "set_tid_address"),
    host(231, "exit_group", &[Val]),
    // KERNEL: waitid writes fields of siginfo_t up to si_status, and leaves a gap.
    home(
        247,
        "waitid",
        &[Val, Val, InOut(Const(28)), Val, InOut(Const(144))],
    )
    .note("CPU time that the child used away is added at home"),
    home(251, "ioprio_set", &[Val, Val, Val]),
    home(252, "ioprio_get", &[Val, Val]),
    come(272, "unshare", "changes what the deputy shares or sees"),
    home(302, "prlimit64", &[Val, Val, NEW_LIMIT, LIMIT])
        .note("for the caller itself the host gives the body the same"),
    come(308, "setns", "changes what the deputy sees"),
    body(309, "getcpu").note("answers for the node the body runs on"),
    come(312, "kcmp", "compares kernel objects of two processes"),
    home(314, "sched_setattr", &[Val, InOut(Head(48)), Val]).note(SCHED),
    home(315, "sched_getattr", &[Val, InOut(Uint(2, 4096)), Val, Val]),
    come(
        317,
        "seccomp",
        "a filter of its own needs the kernel of home",
    ),
    host(322, "execveat", &[Fd, Path, Strs, Strs, Val])
        .note("executed at home; the new image is placed again"),
    home(434, "pidfd_open", &[Val, Val]),
    host(435, "clone3", &[]),
    home(438, "pidfd_getfd", &[Fd, Fd, Val]),
    come(444, "landlock_create_ruleset", "sandboxes the deputy"),
    come(445, "landlock_add_rule", "sandboxes the deputy"),
    come(446, "landlock_restrict_self", "sandboxes the deputy"),
];
