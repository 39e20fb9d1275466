//! The closed list of reasons why a process stays where it is, each with a remedy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! stays {
    ($($name:ident $code:literal $why:literal $remedy:literal;)*) => {
        /// Why a process does not move. Printed by `armento why`, contained in `ps --json` as its [`code`](Stay::code),
        /// listed in the manual.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Stay { $(#[doc = $why] #[serde(rename = $code)] $name,)* }

        impl Stay {
            pub const ALL: &'static [Stay] = &[$(Stay::$name),*];
            /// Stable word for scripts.
            pub fn code(self) -> &'static str { match self { $(Stay::$name => $code),* } }
            /// The reason of that code.
            pub fn from_code(code: &str) -> Option<Stay> {
                Stay::ALL.iter().copied().find(|s| s.code() == code)
            }
            /// One sentence for users.
            pub fn explain(self) -> &'static str { match self { $(Stay::$name => $why),* } }
            /// What the user can do about it.
            pub fn remedy(self) -> &'static str { match self { $(Stay::$name => $remedy),* } }
        }
    };
}

stays! {
    SharedMemory "shared-memory" "it shares writable memory with another process or a file" "those who share memory without a name move together, where there is room for all: `armento migrate PID NODE`; else let it unmap the memory";
    DeviceMapping "device-mapping" "it has a device mapped into its memory" "let it unmap the device; such programs belong on the node that has the device";
    Traced "traced" "another program traces it (a debugger, strace)" "detach the tracer, then move it again";
    OwnFilter "own-filter" "it installed its own seccomp filter" "run it without its sandbox, or leave it at home";
    IoUring "io-uring" "it uses io_uring" "run it with io_uring switched off if it has such an option";
    NotDumpable "not-dumpable" "it is not dumpable: the kernel lets no other process read its memory" "start it without set-uid bits or prctl(PR_SET_DUMPABLE, 0)";
    SealedMapping "sealed-mapping" "it has sealed mappings (mseal), which cannot be taken apart" "run it without GLIBC_TUNABLES=glibc.rtld.seal or its own mseal calls";
    ForeignPidNamespace "foreign-pid-namespace" "it lives in another pid namespace than its keeper" "start it with `armento run` inside that container";
    CpuFeatures "cpu-features" "it started with CPU features that the other node lacks" "start it with `armento run --portable`";
    KernelTooOld "kernel-too-old" "the kernel of one of the two nodes is too old" "update the kernel to 6.7 or newer (6.1 for stop-copy only)";
    LimitLower "limit-lower" "a limit of the other node is lower than what it uses" "raise the limit on that node (`ulimit`, `armento doctor`)";
    ClocksApart "clocks-apart" "the clocks of the two nodes are too far apart" "synchronise the clocks (NTP), then move it again";
    EngineVersion "engine-version" "the other node runs another version of the engine" "update Armento on both nodes";
    UnsupportedCall "unsupported-call" "it uses a system call that only home can serve" "nothing is wrong: it goes out again when it stops calling it";
    Privileged "privileged" "it runs as root, with capabilities, or is set-uid" "run it as an ordinary user, or set allow_root in the node's configuration";
    Locked "locked" "its user or administrator keeps it here (`--stay`, `--on`, a lock), or put it here by hand" "start it without --stay, or `armento migrate PID balance`";
    NoRoom "no-room" "no node has room for it" "free memory on a node, or add one";
    NotTrusted "not-trusted" "its home does not send to that node, or that node does not accept it" "`armento farm trust` on that node and at home shows accept_from and send_to, and changes them";
    SwitchedOff "switched-off" "an administrator has switched that off: its home keeps its own, or the other node takes no guests" "`armento farm status` on both nodes shows it; `armento farm start`, or --off, ends it";
    TooYoung "too-young" "it has not run long enough to be worth moving" "wait a moment, or name the node: `armento migrate PID NODE`";
    WouldNotPay "would-not-pay" "moving it would cost more than it gains" "nothing is wrong: it moves when another node is clearly better";
    ThirtyTwoBit "32-bit" "it is a 32-bit program" "use the 64-bit build";
    TooManyThreads "too-many-threads" "it has more threads than can be moved" "use fewer threads";
    Busy "busy" "it is in a state that cannot be interrupted just now (vfork, disk wait, exit)" "nothing is wrong: it is tried again";
    NoDaemon "no-daemon" "this node's daemon does not answer" "start it: `systemctl start armento`, or `armento node`";
    LinkLost "link-lost" "the link to the other node was lost" "check the network; `armento nodes` shows which nodes answer";
    TargetFailed "target-failed" "the other node could not build it" "see that node's log; it goes on where it was";
    ProcSelfOpen "proc-self-open" "one of its /proc files is open, by itself or another of its tree" "nothing is wrong: it moves when the file is closed";
    NotPermitted "not-permitted" "the kernel forbids its keeper to trace it (Yama, or another security module)" "start it with `armento run` on a node whose daemon is root's, or with --spread; or `sysctl kernel.yama.ptrace_scope=0`";
    KernelState "kernel-state" "the kernel keeps a state for it that a move does not carry" "nothing is wrong: it moves once it has taken that state back, if it can; `armento why` names it";
    NoWalls "no-walls" "the other node cannot make the namespaces that guests live in" "`armento doctor` on that node says which setting forbids it, and how to change it";
    NodeFailed "node-failed" "something that a node does for itself failed: a file, a thread, memory of its own" "the detail names it; it goes on where it was";
    NoPath "no-path" "the two nodes cannot reach each other" "nothing is wrong: it passes through home; else let the two nodes reach each other (routes, firewall)";
}

impl std::fmt::Display for Stay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.explain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_equal_to_their_serialised_form() {
        let mut seen = std::collections::BTreeSet::new();
        for s in Stay::ALL {
            assert!(seen.insert(s.code()), "{} twice", s.code());
            assert!(!s.remedy().is_empty());
            let text = serde_json::to_string(s).expect("a word");
            assert_eq!(text, format!("{:?}", s.code()));
            assert_eq!(serde_json::from_str::<Stay>(&text).ok(), Some(*s));
        }
    }
}
