//! The kernel accepts the filter, and treats calls as the table says.

use std::sync::mpsc;
use std::time::Duration;

use armento_abi::filter::program;

use crate::sys::{filter_this_thread, syscall};

const ENOSYS: i64 = -(libc::ENOSYS as i64);

/// Calls that must run natively, and their results.
fn local_calls() -> Vec<(&'static str, i64)> {
    let call = |nr: libc::c_long, args: [u64; 6]| syscall(nr as u64, args);
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map = call(libc::SYS_mmap, [0, 4096, 3, private, u64::MAX, 0]);
    vec![
        ("mmap", i64::from(map > 0)),
        (
            "munmap",
            call(libc::SYS_munmap, [map as u64, 4096, 0, 0, 0, 0]),
        ),
        ("sched_yield", call(libc::SYS_sched_yield, [0; 6])),
        ("getpid", call(libc::SYS_getpid, [0; 6])),
        (
            "clock_getres",
            call(libc::SYS_clock_getres, [1, 0, 0, 0, 0, 0]),
        ),
        (
            "futex wake",
            call(libc::SYS_futex, [&raw const map as u64, 129, 1, 0, 0, 0]),
        ),
    ]
}

/// Calls that must be notified: without a listener they return ENOSYS.
fn other_calls() -> Vec<(&'static str, i64)> {
    let call = |nr: libc::c_long, args: [u64; 6]| syscall(nr as u64, args);
    let shared = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;
    vec![
        ("getppid", call(libc::SYS_getppid, [0; 6])),
        ("read", call(libc::SYS_read, [0; 6])),
        (
            "shared mmap",
            call(libc::SYS_mmap, [0, 4096, 3, shared, u64::MAX, 0]),
        ),
        (
            "CPU clock",
            call(libc::SYS_clock_getres, [2, 0, 0, 0, 0, 0]),
        ),
        ("x32 getpid", call(0x4000_0000 + libc::SYS_getpid, [0; 6])),
        ("unknown", call(599, [0; 6])),
    ]
}

#[test]
fn kernel_accepts_the_filter() {
    let program = program();
    let (installed, listener) = mpsc::channel();
    let (local_done, local) = mpsc::channel();
    let (closed, go_on) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let fd = filter_this_thread(&program);
        let refused = fd.is_err();
        // The other side may be gone only if the test has failed already.
        let _ = installed.send(fd);
        if refused {
            return Vec::new();
        }
        let _ = local_done.send(local_calls());
        let _ = go_on.recv();
        other_calls()
    });
    let listener = listener
        .recv()
        .expect("the thread answers")
        .expect("seccomp(2) is allowed");
    // A call that was notified by mistake would block here.
    let local = local.recv_timeout(Duration::from_secs(20));
    drop(listener);
    let _ = closed.send(());
    let others = thread.join().expect("the thread ends");
    let pid = i64::from(std::process::id());
    for (name, ret) in local.expect("local calls need no answer") {
        let want = match name {
            "mmap" => 1,
            "getpid" => pid,
            _ => 0,
        };
        assert_eq!(ret, want, "{name}");
    }
    for (name, ret) in others {
        assert_eq!(ret, ENOSYS, "{name}");
    }
}
