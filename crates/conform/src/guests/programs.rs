//! More real programs: servers, languages with threads and garbage collectors, tools that observe others.
//!
//! As in [`crate::guests::real`], each must print the same every time. Those of [`LONG`] need big packages or much
//! time: they run if they are named, or with `--long`.

use crate::guests::real::Real;

pub const PROGRAMS: &[Real] = &[
    Real {
        name: "redis",
        about: "redis-server under redis-benchmark: clients on TCP and a socket, scripts, a saving child.",
        line: include_str!("../../real/redis.sh"),
        needs: &[
            ("redis-server", "redis-server"),
            ("redis-benchmark", "redis-tools"),
        ],
    },
    Real {
        name: "rsync",
        about: "rsync copies a tree locally: three processes, deltas, deletions, links, limits.",
        line: include_str!("../../real/rsync.sh"),
        needs: &[("rsync", "rsync")],
    },
    Real {
        name: "lua",
        about: "lua: collection, weak tables, coroutines, popen, files, CPU time, a status.",
        line: include_str!("../../real/lua.sh"),
        needs: &[("lua5.4", "lua5.4")],
    },
    Real {
        name: "tcl",
        about: "tclsh: the event loop with timers, a pipe, a server and its clients.",
        line: include_str!("../../real/tcl.sh"),
        needs: &[("tclsh", "tcl")],
    },
    Real {
        name: "tmux",
        about: "tmux: a server with panes on terminals of its own, keys, resizing, hang-ups.",
        line: include_str!("../../real/tmux.sh"),
        needs: &[("tmux", "tmux")],
    },
];

pub const LONG: &[Real] = &[
    Real {
        name: "git",
        about: "git: commits, merges, repack with threads, bisect, clone, push, worktrees, on local files.",
        line: include_str!("../../real/git.sh"),
        needs: &[("git", "git")],
    },
    Real {
        name: "node",
        about: "node: workers with shared memory, timers, the thread pool, sockets, children, signals.",
        line: include_str!("../../real/node.sh"),
        needs: &[("node", "nodejs")],
    },
    Real {
        name: "java",
        about: "A JVM: javac, two collectors, threads, monitors, exceptions out of signals, children.",
        line: include_str!("../../real/java.sh"),
        needs: &[("javac", "default-jdk-headless")],
    },
    Real {
        name: "ruby",
        about: "ruby: threads, queues, ractors, fork, sockets, time-outs, signals.",
        line: include_str!("../../real/ruby.sh"),
        needs: &[("ruby", "ruby")],
    },
    Real {
        name: "php",
        about: "php: generators, proc_open, fork, signals, locks, fibers.",
        line: include_str!("../../real/php.sh"),
        needs: &[("php", "php-cli")],
    },
    Real {
        name: "gdb",
        about: "gdb runs a program with threads: breakpoints, a watchpoint, calls, a fault. Traced programs stay.",
        line: include_str!("../../real/gdb.sh"),
        needs: &[("gdb", "gdb"), ("gcc", "gcc")],
    },
    Real {
        name: "valgrind",
        about: "valgrind runs a program with threads: a bad read, a leak, its own big mappings.",
        line: include_str!("../../real/valgrind.sh"),
        needs: &[("valgrind", "valgrind"), ("gcc", "gcc")],
    },
];
