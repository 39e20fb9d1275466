//! The table is complete and consistent.

use std::collections::BTreeSet;

use armento_abi::{
    Arg, Len, NR_LIMIT, Otherwise, Place, Restart, Verdict, begun_again, describe, maps_shared,
    place_of, row,
};

/// KERNEL: syscall_64.tbl of Linux 6.18.
fn numbers() -> impl Iterator<Item = u64> {
    (0..=336).chain(424..=469)
}

#[test]
fn every_number_has_a_row() {
    for nr in numbers() {
        let row = row(nr).unwrap_or_else(|| panic!("no row for {nr}"));
        assert_eq!(u64::from(row.nr), nr);
        assert!(!row.name.is_empty());
    }
    assert_eq!(describe().count(), numbers().count());
    for nr in [337, 423, 470, NR_LIMIT as u64, u64::MAX, 0x4000_0000] {
        assert!(row(nr).is_none(), "{nr}");
        assert!(
            matches!(place_of(nr, &[0; 6]), Verdict::ComeHome(_)),
            "{nr}"
        );
    }
    let names: BTreeSet<_> = describe().map(|row| row.name).collect();
    assert_eq!(
        names.len(),
        describe().count(),
        "two calls have the same name"
    );
}

#[test]
fn numbers_match_the_headers() {
    let check = |name: &str, nr: libc::c_long| {
        assert_eq!(row(nr as u64).map(|row| row.name), Some(name));
    };
    check("read", libc::SYS_read);
    check("ioctl", libc::SYS_ioctl);
    check("sendmsg", libc::SYS_sendmsg);
    check("wait4", libc::SYS_wait4);
    check("msgrcv", libc::SYS_msgrcv);
    check("prctl", libc::SYS_prctl);
    check("futex", libc::SYS_futex);
    check("getdents64", libc::SYS_getdents64);
    check("epoll_wait", libc::SYS_epoll_wait);
    check("waitid", libc::SYS_waitid);
    check("openat", libc::SYS_openat);
    check("ppoll", libc::SYS_ppoll);
    check("accept4", libc::SYS_accept4);
    check("recvmmsg", libc::SYS_recvmmsg);
    check("statx", libc::SYS_statx);
    check("clone3", libc::SYS_clone3);
    check("epoll_pwait2", libc::SYS_epoll_pwait2);
    check("futex_waitv", libc::SYS_futex_waitv);
    check("mseal", libc::SYS_mseal);
}

#[test]
fn restarted_call_on_a_removed_object_returns_eidrm() {
    let check = |call, ret: i32, want: i32| {
        assert_eq!(begun_again(call as u64, ret.into()), want.into(), "{call}");
    };
    for call in [
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_msgrcv,
        libc::SYS_msgsnd,
    ] {
        check(call, -libc::EINVAL, -libc::EIDRM);
        check(call, -libc::EACCES, -libc::EACCES);
        check(call, 3, 3);
    }
    check(libc::SYS_semctl, -libc::EINVAL, -libc::EINVAL);
    check(libc::SYS_read, -libc::EINVAL, -libc::EINVAL);
}

#[test]
fn rows_are_consistent() {
    for row in describe() {
        let name = row.name;
        assert!(row.args.len() <= 6, "{name}");
        let conditional = matches!(row.place, Place::BodyIf(..));
        assert_eq!(!row.when.is_empty(), conditional, "{name}: when?");
        let served = !matches!(row.place, Place::ComeHome);
        assert!(
            served || !row.note.is_empty(),
            "{name} does not state why it comes home"
        );
        assert!(served || row.args.is_empty(), "{name}");
        for (i, arg) in row.args.iter().enumerate() {
            let other = match *arg {
                Arg::Addr(by) | Arg::InOutBy(by) => {
                    assert_eq!(row.args[by as usize], Arg::AddrLen, "{name}");
                    by
                }
                Arg::InSome(by) => by,
                Arg::IovIn | Arg::IovOut | Arg::MmsgIn | Arg::MmsgOut => i as u8 + 1,
                Arg::In(len) | Arg::Out(len) | Arg::InOut(len) => match len {
                    Len::Arg(by) | Len::Ret(by) | Len::RetInt(by) => by,
                    Len::Int(by, _) | Len::Uint(by, _) | Len::ArgTimes(by, _) => by,
                    Len::ArgPlus(by, _) | Len::RetPlus(by, _) | Len::RetTimes(by, _) => by,
                    Len::Const(_) | Len::Hit(_) | Len::Intr(_) | Len::Head(_) => continue,
                },
                _ => continue,
            };
            let counted = row.args.get(other as usize);
            assert!(
                matches!(counted, Some(Arg::Val | Arg::AddrLen)),
                "{name}: {i}"
            );
        }
    }
}

#[test]
fn sizes_match_the_headers() {
    let check = |nr: libc::c_long, arg: usize, size: usize| {
        let row = row(nr as u64).expect("row");
        let len = match row.args[arg] {
            Arg::In(len) | Arg::Out(len) | Arg::InOut(len) => len,
            other => panic!("{}: {other:?}", row.name),
        };
        let n = match len {
            Len::Const(n) | Len::Hit(n) | Len::Intr(n) => n,
            other => panic!("{}: {other:?}", row.name),
        };
        assert_eq!(n as usize, size, "{} argument {arg}", row.name);
    };
    check(libc::SYS_stat, 1, size_of::<libc::stat>());
    check(libc::SYS_newfstatat, 2, size_of::<libc::stat>());
    check(libc::SYS_statfs, 1, size_of::<libc::statfs>());
    check(libc::SYS_statx, 4, size_of::<libc::statx>());
    check(libc::SYS_uname, 0, size_of::<libc::utsname>());
    check(libc::SYS_sysinfo, 0, size_of::<libc::sysinfo>());
    check(libc::SYS_getrusage, 1, size_of::<libc::rusage>());
    check(libc::SYS_wait4, 3, size_of::<libc::rusage>());
    check(libc::SYS_times, 0, size_of::<libc::tms>());
    check(libc::SYS_getrlimit, 1, size_of::<libc::rlimit>());
    check(libc::SYS_prlimit64, 2, size_of::<libc::rlimit>());
    check(libc::SYS_setitimer, 1, size_of::<libc::itimerval>());
    check(libc::SYS_timer_settime, 2, size_of::<libc::itimerspec>());
    check(libc::SYS_timer_create, 1, size_of::<libc::sigevent>());
    check(libc::SYS_epoll_ctl, 3, size_of::<libc::epoll_event>());
    check(libc::SYS_adjtimex, 0, size_of::<libc::timex>());
    check(libc::SYS_clock_adjtime, 1, size_of::<libc::timex>());
    check(libc::SYS_mq_open, 3, size_of::<libc::mq_attr>());
    check(libc::SYS_rt_sigqueueinfo, 2, size_of::<libc::siginfo_t>());
    check(libc::SYS_utimensat, 2, 2 * size_of::<libc::timespec>());
}

#[test]
fn places_depend_on_arguments() {
    let check = |nr: libc::c_long, args: &[u64], want: &str| {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let got = match place_of(nr as u64, &all) {
            Verdict::Body => "body",
            Verdict::Host => "host",
            Verdict::Home => "home",
            Verdict::ComeHome(_) => "come",
        };
        assert_eq!(got, want, "call {nr} with {args:x?}");
    };
    check(libc::SYS_getpid, &[], "body");
    check(libc::SYS_getppid, &[], "home");
    check(libc::SYS_fork, &[], "host");
    check(libc::SYS_ptrace, &[], "come");
    check(libc::SYS_name_to_handle_at, &[], "come");
    check(libc::SYS_quotactl, &[], "come");
    check(libc::SYS_mmap, &[0, 4096, 3, 0x22, u64::MAX, 0], "body");
    check(libc::SYS_mmap, &[0, 4096, 3, 0x2_0022, u64::MAX, 0], "body"); // MAP_STACK
    check(libc::SYS_mmap, &[0, 4096, 3, 0x21, u64::MAX, 0], "host"); // shared
    check(libc::SYS_mmap, &[0, 4096, 1, 2, 3, 0], "host"); // a file
    check(
        libc::SYS_mmap,
        &[0, 2 << 20, 3, 0x4_0022, u64::MAX, 0],
        "host",
    ); // huge
    check(libc::SYS_futex, &[0x1000, 128, 0, 0], "body");
    check(libc::SYS_futex, &[0x1000, 128, 0, 0x2000], "host");
    check(libc::SYS_futex, &[0x1000, 137, 0, 0x2000], "body"); // FUTEX_WAIT_BITSET
    check(libc::SYS_futex, &[0x1000, 129, 1, 0x2000], "body"); // the timeout is junk
    check(libc::SYS_clock_gettime, &[1], "body");
    check(libc::SYS_clock_gettime, &[2], "host");
    check(libc::SYS_clock_gettime, &[(-6i64) as u64], "host");
    check(libc::SYS_rt_sigaction, &[17], "host");
    check(libc::SYS_rt_sigaction, &[15], "body");
    check(libc::SYS_arch_prctl, &[0x1002], "body");
    check(libc::SYS_arch_prctl, &[0x1012], "come");
    check(libc::SYS_arch_prctl, &[0x5001], "come");
    check(libc::SYS_prctl, &[15], "home");
    check(libc::SYS_prctl, &[40, 1], "body");
    check(libc::SYS_prctl, &[0x5356_4d41], "body");
    check(libc::SYS_prctl, &[38, 1], "home");
    check(libc::SYS_prctl, &[4, 0], "come");
    check(libc::SYS_prctl, &[22, 2], "come");
    check(libc::SYS_prctl, &[35], "come");
    check(libc::SYS_prctl, &[9999], "come");
    check(libc::SYS_prctl, &[0xdead_0000_0000_0001], "home"); // options are ints
    check(libc::SYS_ioctl, &[0, 0x5401], "home");
    check(libc::SYS_ioctl, &[0, 0xffff_ffff_0000_5401], "home");
    check(libc::SYS_ioctl, &[0, 0x8912], "come");
    check(libc::SYS_ioctl, &[0, 0xc020_660b], "come");
    check(libc::SYS_fcntl, &[0, 3], "home");
    check(libc::SYS_fcntl, &[0, 777], "come");
    check(libc::SYS_setitimer, &[0], "host");
    check(libc::SYS_setitimer, &[1], "host");
    check(libc::SYS_getitimer, &[2], "body");
    check(libc::SYS_timer_create, &[1], "home");
    check(libc::SYS_timer_create, &[2], "come");
    check(libc::SYS_clock_nanosleep, &[1], "home");
    check(libc::SYS_clock_nanosleep, &[2], "come");
    check(libc::SYS_clock_nanosleep, &[3], "home"); // home returns EINVAL
    check(libc::SYS_sendto, &[3, 0, 0, 0x4000], "home");
    check(libc::SYS_sendto, &[3, 0, 0, 0x400_0000], "come");
    check(libc::SYS_sendmsg, &[3, 0, 0x400_0000], "come");
    check(libc::SYS_setsockopt, &[3, 1, 2], "home");
    check(libc::SYS_setsockopt, &[3, 1, 26], "come");
    check(libc::SYS_getsockopt, &[3, 6, 35], "come");
    check(libc::SYS_personality, &[0xffff_ffff], "home");
    check(libc::SYS_personality, &[0], "come");
    check(libc::SYS_semctl, &[0, 0, 16], "home");
    check(libc::SYS_semctl, &[0, 0, 13], "come");
    check(libc::SYS_get_robust_list, &[0], "body");
    check(libc::SYS_get_robust_list, &[7], "come");
    check(libc::SYS_restart_syscall, &[], "host");
    check(libc::SYS_io_uring_setup, &[], "come");
}

#[test]
fn shared_mappings_are_not_private() {
    let check = |flags: i32, want| assert_eq!(maps_shared(flags as u64), want, "{flags:#x}");
    check(libc::MAP_SHARED, true);
    check(libc::MAP_SHARED_VALIDATE, true);
    check(libc::MAP_PRIVATE, false);
    check(
        libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS,
        false,
    );
}

#[test]
fn restart_rules_match_the_kernel() {
    let check = |nr: libc::c_long, want: Restart| {
        let row = row(nr as u64).expect("row");
        assert_eq!(row.restart, want, "{}", row.name);
    };
    for nr in [
        libc::SYS_epoll_wait,
        libc::SYS_semop,
        libc::SYS_rt_sigtimedwait,
    ] {
        check(nr, Restart::Eintr);
    }
    for nr in [
        libc::SYS_recvfrom,
        libc::SYS_accept,
        libc::SYS_connect,
        libc::SYS_read,
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
        libc::SYS_sendfile,
        libc::SYS_splice,
    ] {
        check(nr, Restart::Eintr);
    }
    for nr in [
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_poll,
    ] {
        check(nr, Restart::Block);
    }
    check(libc::SYS_futex, Restart::Block);
    check(libc::SYS_close, Restart::Never);
    check(libc::SYS_wait4, Restart::Kernel);
    check(libc::SYS_ppoll, Restart::Kernel);
}

#[test]
fn places_and_restarts_have_descriptions() {
    for row in describe() {
        let words = row.place.to_string();
        let conditional = matches!(row.place, Place::BodyIf(_, Otherwise::Host));
        assert_eq!(words == "body or host", conditional, "{}", row.name);
        // Tables are cut at bars, and lines are wrapped at blanks.
        let plain = |c: char| c.is_ascii() && c != '|' && !c.is_control();
        assert!(row.remarks().chars().all(plain), "{}", row.name);
    }
    let words: BTreeSet<_> = Restart::ALL.iter().map(|r| r.word()).collect();
    assert_eq!(words.len(), Restart::ALL.len());
}
