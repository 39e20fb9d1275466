//! Waiting calls: sets, masks, timeouts; children; exec.

use crate::common::{Body, EFAULT, HOLE, PAGE, call, plan};
use armento_abi::{
    MaskAt, Refuse, Timeout, deadline, read_mask, set_timeout, timeout_in_out, wait_mask,
};

const A: u64 = 0x10000;

fn nr(call: libc::c_long) -> u64 {
    call as u64
}

#[test]
fn select_returns_sets_and_remaining_time() {
    let mut body = Body::new(1);
    body.put_words(A, &[0b1110, 0x55]);
    body.put_words(A + 0x100, &[2, 500]);
    let args = [4, A, 0, A, A + 0x100];
    let ret = call(nr(libc::SYS_select), &args, &mut body, |home| {
        assert_eq!(home.word(home.args[1])?, 0b1110);
        assert_eq!(home.args[2], 0);
        home.write(home.args[1], &2u64.to_le_bytes())?;
        home.write(home.args[4], &1u64.to_le_bytes())?;
        Ok(1)
    });
    assert_eq!(ret, 1);
    assert_eq!(
        (body.word32(A), body.word32(A + 8), body.word32(A + 0x100)),
        (2, 0x55, 1)
    );
    // Interrupted: the sets are unchanged, the remaining time is returned.
    body.put_words(A, &[0b1110]);
    let ret = call(nr(libc::SYS_select), &args, &mut body, |home| {
        home.write(home.args[4], &0u64.to_le_bytes())?;
        Ok(-4)
    });
    assert_eq!(
        (ret, body.word32(A), body.word32(A + 0x100)),
        (-4, 0b1110, 0)
    );
}

#[test]
fn select_accepts_sets_smaller_than_stated() {
    let mut body = Body::new(1);
    let end = A + PAGE - 128;
    body.put_words(end, &[1]);
    let ret = call(
        nr(libc::SYS_select),
        &[1 << 20, end, 0, 0, 0],
        &mut body,
        |home| {
            home.write(home.args[1], &0u64.to_le_bytes())?;
            Ok(0)
        },
    );
    assert_eq!((ret, body.word32(end)), (0, 0));
    assert_eq!(body.writes, [(end, 4)]);
    let ret = call(
        nr(libc::SYS_select),
        &[512, HOLE, 0, 0, 0],
        &mut body,
        |home| home.read(home.args[1], 64).map(|_| 0),
    );
    assert_eq!(ret, EFAULT);
}

#[test]
fn timeout_in_read_only_memory_is_no_error() {
    let mut body = Body::new(1);
    body.map(0x40000, 1, false);
    body.put_words(0x40000, &[1, 0]);
    let ret = call(
        nr(libc::SYS_ppoll),
        &[0, 0, 0x40000, 0, 8],
        &mut body,
        |home| {
            home.write(home.args[2], &[0; 16])?;
            Ok(0)
        },
    );
    assert_eq!((ret, body.word32(0x40000)), (0, 1));
}

#[test]
fn poll_returns_events() {
    let mut body = Body::new(1);
    body.put_words(A, &[0x0000_0001_0000_0003, 0x0000_0004_0000_0005]);
    let ret = call(nr(libc::SYS_poll), &[A, 2, 100], &mut body, |home| {
        home.write(home.args[0] + 6, &1u16.to_le_bytes())?;
        Ok(1)
    });
    assert_eq!(ret, 1);
    assert_eq!(body.get(A, 8), [3, 0, 0, 0, 1, 0, 1, 0]);
    assert_eq!(body.writes, [(A + 4, 4)]);
    let none = call(nr(libc::SYS_poll), &[0, 0, 0], &mut body, |home| {
        assert_eq!(home.args[..3], [0, 0, 0]);
        Ok(0)
    });
    assert_eq!(none, 0);
}

#[test]
fn masks_are_not_sent_home() {
    let mut body = Body::new(1);
    body.put_words(A, &[0b10]);
    body.put_words(A + 16, &[A, 8]);
    body.put_words(A + 32, &[0, 8]);
    body.put_words(A + 48, &[A, 4]);
    let mut check = |call: libc::c_long, args: [u64; 6], at, want: Result<Option<u64>, i32>| {
        assert_eq!(wait_mask(nr(call), &args), at);
        assert_eq!(read_mask(nr(call), &args, &mut body), want, "{args:x?}");
    };
    let set = |addr, size| Some(MaskAt::Set { addr, size });
    let pair = |addr| Some(MaskAt::Pair { addr });
    check(libc::SYS_ppoll, [0, 0, 0, A, 8, 0], set(A, 8), Ok(Some(2)));
    check(libc::SYS_ppoll, [0, 0, 0, 0, 8, 0], None, Ok(None));
    check(
        libc::SYS_ppoll,
        [0, 0, 0, A, 4, 0],
        set(A, 4),
        Err(libc::EINVAL),
    );
    check(
        libc::SYS_ppoll,
        [0, 0, 0, HOLE, 8, 0],
        set(HOLE, 8),
        Err(libc::EFAULT),
    );
    check(
        libc::SYS_epoll_pwait,
        [0, 0, 1, 0, A, 8],
        set(A, 8),
        Ok(Some(2)),
    );
    check(
        libc::SYS_epoll_pwait2,
        [0, 0, 1, 0, A, 8],
        set(A, 8),
        Ok(Some(2)),
    );
    check(
        libc::SYS_pselect6,
        [0, 0, 0, 0, 0, A + 16],
        pair(A + 16),
        Ok(Some(2)),
    );
    check(
        libc::SYS_pselect6,
        [0, 0, 0, 0, 0, A + 32],
        pair(A + 32),
        Ok(None),
    );
    check(
        libc::SYS_pselect6,
        [0, 0, 0, 0, 0, A + 48],
        pair(A + 48),
        Err(libc::EINVAL),
    );
    check(
        libc::SYS_pselect6,
        [0, 0, 0, 0, 0, 1],
        pair(1),
        Err(libc::EFAULT),
    );
    check(libc::SYS_poll, [0, 0, 0, A, 8, 0], None, Ok(None));

    let sent = plan(nr(libc::SYS_ppoll), &[0, 0, 0, A, 8], &mut body).expect("packs");
    assert_eq!(sent.packed.args[3], 0);
    let sent = plan(nr(libc::SYS_pselect6), &[0, 0, 0, 0, 0, A], &mut body).expect("packs");
    assert_eq!(sent.packed.args[5], 0);
    for call in [libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6] {
        assert!(timeout_in_out(nr(call)));
    }
    assert!(!timeout_in_out(nr(libc::SYS_poll)));
}

#[test]
fn timeouts_are_read_and_shortened() {
    const MS: u64 = 1_000_000;
    let mut body = Body::new(1);
    body.put_words(A, &[2, 500 * MS]); // timespec
    body.put_words(A + 16, &[2, 500_000]); // timeval
    body.put_words(A + 32, &[2, 1_000_000_000]); // not a timespec
    body.put_words(A + 48, &[u64::MAX, 0]);
    let mut check = |call: libc::c_long, args: &[u64], want: Option<u64>| {
        let mut packed = plan(nr(call), args, &mut body).expect("packs").packed;
        let before = packed.clone();
        assert_eq!(
            deadline(&packed),
            want.map(|rel_ns| Timeout { rel_ns }),
            "{call}"
        );
        set_timeout(&mut packed, 700 * MS);
        match want {
            Some(_) => assert_eq!(deadline(&packed), Some(Timeout { rel_ns: 700 * MS })),
            None => assert_eq!(packed, before),
        }
    };
    let two_and_half = Some(2500 * MS);
    check(libc::SYS_nanosleep, &[A, 0], two_and_half);
    check(libc::SYS_nanosleep, &[A, A], two_and_half);
    check(libc::SYS_nanosleep, &[A + 32, 0], None);
    check(libc::SYS_nanosleep, &[A + 48, 0], None);
    check(libc::SYS_nanosleep, &[0, 0], None);
    check(libc::SYS_clock_nanosleep, &[1, 0, A, 0], two_and_half);
    check(libc::SYS_clock_nanosleep, &[1, 1, A, 0], None);
    check(libc::SYS_poll, &[0, 0, 2500], two_and_half);
    check(libc::SYS_poll, &[0, 0, u64::from(u32::MAX)], None);
    check(libc::SYS_ppoll, &[0, 0, A, 0, 8], two_and_half);
    check(libc::SYS_ppoll, &[0, 0, 0, 0, 8], None);
    check(libc::SYS_select, &[0, 0, 0, 0, A + 16], two_and_half);
    check(libc::SYS_pselect6, &[0, 0, 0, 0, A, 0], two_and_half);
    check(libc::SYS_epoll_wait, &[3, A, 1, 2500], two_and_half);
    check(libc::SYS_epoll_wait, &[3, A, 1, (-1i64) as u64], None);
    check(libc::SYS_epoll_pwait, &[3, A, 1, 2500, 0, 8], two_and_half);
    check(libc::SYS_epoll_pwait2, &[3, A, 1, A, 0, 8], two_and_half);
    check(libc::SYS_epoll_pwait2, &[3, A, 1, 0, 0, 8], None);
    check(libc::SYS_semtimedop, &[0, A, 1, A], two_and_half);
    check(libc::SYS_semtimedop, &[0, A, 1, 0], None);
    check(libc::SYS_read, &[0, A, 10], None);
    // A remainder below the unit must not become a busy loop.
    let mut poll = plan(nr(libc::SYS_poll), &[0, 0, 50], &mut body)
        .expect("packs")
        .packed;
    set_timeout(&mut poll, 1);
    assert_eq!(poll.args[2], 1);
}

#[test]
fn interrupted_sleeps_return_the_remaining_time() {
    let check = |call_nr: libc::c_long, args: &[u64], rem: usize, ret: i64, want: u32| {
        let mut body = Body::new(1);
        body.put_words(A, &[5, 0]);
        let got = call(nr(call_nr), args, &mut body, |home| {
            home.write(home.args[rem], &3u64.to_le_bytes())?;
            Ok(ret)
        });
        assert_eq!((got, body.word32(A)), (ret, want));
    };
    check(libc::SYS_nanosleep, &[A, A], 1, -4, 3);
    check(libc::SYS_nanosleep, &[A, A], 1, 0, 5);
    check(libc::SYS_clock_nanosleep, &[1, 0, A, A], 3, -4, 3);
    check(libc::SYS_clock_nanosleep, &[1, 0, A, A], 3, 0, 5);
}

#[test]
fn children_are_reported() {
    let mut body = Body::new(1);
    let none = call(nr(libc::SYS_wait4), &[5, A, 1, A + 64], &mut body, |_| {
        Ok(0)
    });
    assert_eq!((none, body.writes.len()), (0, 0)); // WNOHANG
    let ret = call(nr(libc::SYS_wait4), &[5, A, 0, A + 64], &mut body, |home| {
        home.write(home.args[1], &256u32.to_le_bytes())?;
        home.write(home.args[3], &[1; 144])?;
        Ok(5)
    });
    assert_eq!((ret, body.word32(A)), (5, 256));
    assert_eq!(body.get(A + 64, 145)[143..], [1, 0xee]);
    // waitid leaves a gap in siginfo.
    let args = [1, 5, A, 4, A + 64];
    body.put(A, &[0xee; 32]);
    let ret = call(nr(libc::SYS_waitid), &args, &mut body, |home| {
        home.write(home.args[2], &[2; 12])?;
        home.write(home.args[2] + 16, &[3; 12])?;
        home.write(home.args[4], &[4; 144])?;
        Ok(0)
    });
    assert_eq!(ret, 0);
    assert_eq!(body.get(A, 12), [2; 12]);
    assert_eq!(body.get(A + 12, 4), [0xee; 4]);
    assert_eq!(
        body.get(A + 16, 16),
        [[3; 12].as_slice(), &[0xee; 4]].concat()
    );
    assert_eq!(body.get(A + 64, 144), [4; 144]);
}

#[test]
fn timers_and_queues_are_forwarded() {
    let mut body = Body::new(1);
    body.put(A, &[0; 64]);
    let ret = call(
        nr(libc::SYS_timer_create),
        &[1, A, A + 64],
        &mut body,
        |home| {
            assert_eq!(home.read(home.args[1], 64)?, [0; 64]);
            home.write(home.args[2], &4u32.to_le_bytes())?;
            Ok(0)
        },
    );
    assert_eq!((ret, body.word32(A + 64)), (0, 4));
    let cpu = plan(nr(libc::SYS_timer_create), &[3, A, A + 64], &mut body);
    assert!(matches!(cpu, Err(Refuse::ComeHome(_))));
    assert!(plan(nr(libc::SYS_mq_notify), &[3, A], &mut body).is_ok());
    assert!(plan(nr(libc::SYS_mq_notify), &[3, 0], &mut body).is_ok());
    body.put(A + 12, &2u32.to_le_bytes()); // SIGEV_THREAD
    let thread = plan(nr(libc::SYS_mq_notify), &[3, A], &mut body);
    assert!(matches!(thread, Err(Refuse::ComeHome(_))));
    // mq_open without O_CREAT has garbage where the attributes would be.
    body.put(A, b"/q\0");
    assert!(plan(nr(libc::SYS_mq_open), &[A, 0, 0x1234, HOLE], &mut body).is_ok());
    // epoll is limited to as many events as fit.
    let many = plan(nr(libc::SYS_epoll_wait), &[3, A, 1 << 20, 0], &mut body).expect("packs");
    assert!(many.packed.args[2] > 0 && many.packed.args[2] < 1 << 20);
    let send = call(nr(libc::SYS_msgsnd), &[1, A, 5, 0], &mut body, |home| {
        home.read(home.args[1], 13).map(|_| 0)
    });
    assert_eq!(send, 0);
    // The kernel refuses an impossible size (EINVAL), after it has read the type.
    let huge = plan(nr(libc::SYS_msgsnd), &[1, A, u64::MAX, 0], &mut body).expect("packs");
    assert_eq!((huge.packed.data.len(), huge.packed.args[2]), (8, u64::MAX));
    let ops = plan(nr(libc::SYS_semop), &[1, A, 2], &mut body).expect("packs");
    assert_eq!(ops.packed.data.len(), 12);
    let attr = body.put(A, &56u32.to_le_bytes());
    let set = plan(nr(libc::SYS_sched_setattr), &[0, attr, 0], &mut body).expect("packs");
    assert_eq!(set.packed.data.len(), 56);
}

/// Places strings one after the other and an array of pointers to them.
fn strings(body: &mut Body, array: u64, text: u64, strings: &[&[u8]]) -> u64 {
    let mut at = text;
    let mut words = Vec::new();
    for s in strings {
        words.push(body.put(at, &[s, b"\0".as_slice()].concat()));
        at += s.len() as u64 + 1;
    }
    words.push(0);
    body.put_words(array, &words)
}

#[test]
fn exec_sends_arguments() {
    let mut body = Body::new(4);
    let path = body.put(A, b"/bin/prog\0");
    let argv = strings(
        &mut body,
        A + PAGE - 16,
        A + 0x100,
        &[b"prog", b"", b"a b", b"last"],
    );
    let envp = strings(&mut body, A + 0x40, A + 3 * PAGE - 7, &[b"HOME=/root"]);
    for call_nr in [libc::SYS_execve, libc::SYS_execveat] {
        let at = usize::from(call_nr == libc::SYS_execveat);
        let mut args = vec![path, argv, envp];
        args.splice(0..0, vec![5; at]);
        let ret = call(nr(call_nr), &args, &mut body, |home| {
            assert_eq!(home.text(home.args[at])?, "/bin/prog");
            let mut lists = Vec::new();
            for list in [home.args[at + 1], home.args[at + 2]] {
                let mut i = 0;
                while home.word(list + i * 8)? != 0 {
                    lists.push(home.text(home.word(list + i * 8)?)?);
                    i += 1;
                }
            }
            assert_eq!(lists, ["prog", "", "a b", "last", "HOME=/root"]);
            Ok(-2)
        });
        assert_eq!(ret, -2);
    }
}

#[test]
fn exec_with_bad_arrays_fails() {
    let mut body = Body::new(2);
    let path = body.put(A, b"/bin/prog\0");
    let null = plan(nr(libc::SYS_execve), &[path, 0, 0], &mut body).expect("packs");
    assert_eq!(null.packed.args[1..3], [0, 0]);
    let hole = plan(nr(libc::SYS_execve), &[path, HOLE, 0], &mut body).expect("packs");
    assert_eq!(hole.packed.arg_ptrs, 0b1);
    // An array that extends into the hole, and one with a bad string.
    body.put_words(A + 2 * PAGE - 8, &[path]);
    let runs = plan(
        nr(libc::SYS_execve),
        &[path, A + 2 * PAGE - 8, 0],
        &mut body,
    )
    .expect("packs");
    assert_eq!(runs.packed.arg_ptrs, 0b1);
    let array = body.put_words(A + 0x100, &[path, HOLE, 0]);
    let ret = call(nr(libc::SYS_execve), &[path, array, 0], &mut body, |home| {
        assert_eq!(home.text(home.word(home.args[1])?)?, "/bin/prog");
        home.text(home.word(home.args[1] + 8)?).map(|_| 0)
    });
    assert_eq!(ret, EFAULT);
}

#[test]
fn exec_too_big_is_refused() {
    let pages = (200 << 10) / PAGE;
    let mut body = Body::new(pages);
    let path = body.put(A, b"/p\0");
    body.put(A + PAGE, &vec![b'x'; 180 << 10]);
    let array = body.put_words(A + 0x100, &[A + PAGE, 0]);
    let refused = plan(nr(libc::SYS_execve), &[path, array, 0], &mut body);
    assert_eq!(refused, Err(Refuse::Errno(libc::E2BIG)));
    // An array without a terminating NULL.
    body.map(0x1000_0000, (7 << 20) / PAGE, true);
    let refused = plan(nr(libc::SYS_execve), &[path, 0x1000_0000, 0], &mut body);
    assert_eq!(refused, Err(Refuse::Errno(libc::E2BIG)));
}
