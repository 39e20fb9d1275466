//! What waits, exec and the clocks make of the accounts.

use super::correct::{SIGINFO, STATUS};
use super::*;
use armento_abi::{Out, OutRule};
use armento_model::{CpuTime, Shown};
use armento_tracee::usage;

const MS: u64 = 1_000_000;

fn ms(user: u64, system: u64) -> CpuTime {
    CpuTime {
        user_ns: user * MS,
        system_ns: system * MS,
    }
}

/// A call of process 10, thread 11, whose kernel wrote zeros; what it reads in the end.
fn read(
    b: &CpuAccounts,
    own: bool,
    nr: i64,
    args: [u64; 6],
    ret: i64,
    outs: &[&[u8]],
) -> Vec<Vec<u8>> {
    let rule = OutRule::OnSuccess;
    let (mut list, mut all) = (Vec::new(), Vec::new());
    for o in outs {
        list.push(Out {
            off: 0,
            len: o.len() as u32,
            rule,
        });
        all.extend_from_slice(o);
    }
    let (pid, tid) = (10, 11);
    let done = ReturnedCall {
        pid,
        tid,
        nr,
        args,
        ret,
    };
    b.correct(&done, own, &mut Results(&list, &mut all));
    let mut rest = all.as_slice();
    outs.iter()
        .map(|o| rest.split_off(..o.len()).unwrap_or_default().to_vec())
        .collect()
}

fn words(b: &[u8]) -> Vec<u64> {
    b.chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
        .collect()
}

/// Microseconds of user and system time in a struct rusage.
fn used(rusage: &[u8]) -> (u64, u64) {
    let w = words(rusage);
    (w[0] * 1_000_000 + w[1], w[2] * 1_000_000 + w[3])
}

const RUSAGE: [u8; usage::RUSAGE] = [0; usage::RUSAGE];
const EXITED: [u8; STATUS] = [0; STATUS];

fn wait4(b: &CpuAccounts, child: i64, status: &[u8]) -> (u64, u64) {
    used(&read(b, false, libc::SYS_wait4, [0; 6], child, &[status, &RUSAGE])[1])
}

fn children(b: &CpuAccounts) -> (u64, u64) {
    let args = [libc::RUSAGE_CHILDREN as u64, 0, 0, 0, 0, 0];
    used(&read(b, false, libc::SYS_getrusage, args, 0, &[&RUSAGE])[0])
}

#[test]
fn time_of_an_ended_child_goes_to_its_parent() {
    let b = CpuAccounts::default();
    b.reported(20, ms(1500, 20));
    let stopped = (libc::SIGSTOP << 8 | 0x7f).to_le_bytes();
    assert_eq!(wait4(&b, 20, &stopped), (1_500_000, 20_000));
    assert_eq!(children(&b), (0, 0));
    assert_eq!(wait4(&b, 20, &EXITED), (1_500_000, 20_000));
    assert_eq!(children(&b), (1_500_000, 20_000));
    // It was told once: its number may be another's now.
    assert_eq!(wait4(&b, 20, &EXITED), (0, 0));
    let tms = read(&b, false, libc::SYS_times, [0; 6], 1, &[&[0; usage::TMS]]);
    assert_eq!(words(&tms[0]), [0, 0, 150, 2]);
}

#[test]
fn waitid_with_wnowait_keeps_the_time_of_the_child() {
    let b = CpuAccounts::default();
    b.reported(20, ms(3, 4));
    let mut info = [0u8; SIGINFO];
    info[8..12].copy_from_slice(&libc::CLD_EXITED.to_le_bytes());
    info[12..16].copy_from_slice(&20i32.to_le_bytes());
    let waitid = |options: i32| {
        let args = [0, 0, 0, options as u64, 0, 0];
        used(&read(&b, false, libc::SYS_waitid, args, 0, &[&info, &RUSAGE])[1])
    };
    assert_eq!(waitid(libc::WEXITED | libc::WNOWAIT), (3000, 4000));
    assert_eq!(waitid(libc::WEXITED), (3000, 4000));
    assert_eq!(waitid(libc::WEXITED), (0, 0));
    assert_eq!(children(&b), (3000, 4000));
}

#[test]
fn own_time_is_added_at_home_only() {
    let b = CpuAccounts::default();
    b.reported(10, ms(5, 6));
    b.thread_reported(10, 11, ms(1, 1));
    let clock = |own, id: i32| {
        let args = [id as u64, 0, 0, 0, 0, 0];
        words(
            &read(
                &b,
                own,
                libc::SYS_clock_gettime,
                args,
                0,
                &[&[0; usage::TIMESPEC]],
            )[0],
        )[1]
    };
    assert_eq!((clock(true, 2), clock(true, 3)), (11 * MS, 2 * MS));
    assert_eq!((clock(false, 2), clock(false, 3)), (0, 0));
    assert_eq!(clock(true, libc::CLOCK_MONOTONIC), 0);
    // All ticks, and those of user mode.
    assert_eq!(
        (clock(true, !10 << 3), clock(true, !10 << 3 | 1)),
        (11 * MS, 5 * MS)
    );
    // That of another is known at home only.
    b.reported(20, ms(7, 0));
    assert_eq!(clock(false, !20 << 3 | 2), 7 * MS);
}

#[test]
fn exec_keeps_used_time_and_forgets_what_was_read() {
    let b = CpuAccounts::default();
    b.reported(10, ms(5, 6));
    b.thread_reported(10, 11, ms(1, 1));
    b.thread_reported(10, 12, ms(2, 2));
    let args = [libc::RUSAGE_SELF as u64, 0, 0, 0, 0, 0];
    read(&b, true, libc::SYS_getrusage, args, 0, &[&RUSAGE]);
    assert_eq!(b.leaves(10).shown.split, ms(5, 6));
    b.execed(10, 12);
    assert_eq!(
        (b.leaves(10).away, b.leaves(10).shown),
        (ms(5, 6), Shown::default())
    );
    let thread = |tid| b.thread(10, tid).map(|t| t.away);
    assert_eq!(
        (thread(10), thread(11), thread(12)),
        (Some(ms(2, 2)), None, None)
    );
    b.begin(10);
    assert_eq!(b.away(10), CpuTime::default());
}

#[test]
fn reported_time_never_decreases() {
    let b = CpuAccounts::default();
    b.reported(10, ms(5, 6));
    // An end whose clock was gone.
    b.reported(10, CpuTime::default());
    assert_eq!(b.away(10), ms(5, 6));
}
