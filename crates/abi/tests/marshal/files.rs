//! Paths, reads and writes, commands, and faults.

use crate::common::{BASE, Body, CAP, EFAULT, HOLE, PAGE, call, plan};
use armento_abi::{OutRule, Packed, Refuse, out_len, pack};

const A: u64 = 0x10000;

fn nr(call: libc::c_long) -> u64 {
    call as u64
}

#[test]
fn paths_arrive_or_fault_at_home() {
    let check = |addr: u64, put: &[u8], want: Result<&str, ()>| {
        let mut body = Body::new(2);
        body.put(if put.is_empty() { A } else { addr }, put);
        let ret = call(
            nr(libc::SYS_openat),
            &[-100i64 as u64, addr, 0, 0],
            &mut body,
            |home| {
                assert_eq!(home.args[0], -100i64 as u64);
                let text = home.text(home.args[1])?;
                assert_eq!(Ok(text.as_str()), want);
                Ok(3)
            },
        );
        assert_eq!(ret, if want.is_ok() { 3 } else { EFAULT }, "{addr:#x}");
    };
    check(A + 5, b"/etc/passwd\0", Ok("/etc/passwd"));
    check(A + PAGE - 3, b"/tmp/across\0", Ok("/tmp/across"));
    check(A, b"\0", Ok(""));
    check(A + 2 * PAGE - 5, b"/tmp\0", Ok("/tmp"));
    check(A + 2 * PAGE - 4, b"/tmp", Err(())); // no NUL before the hole
    check(HOLE, b"", Err(()));
    check(0, b"", Err(()));
    check(8, b"", Err(()));
    check(u64::MAX, b"", Err(()));
    check(u64::MAX - PAGE, b"", Err(()));
    let long = vec![b'x'; 300];
    check(
        A + 1,
        &[long.as_slice(), b"\0"].concat(),
        Ok(str::from_utf8(&long).expect("ascii")),
    );
}

#[test]
fn too_long_path_stays_too_long() {
    let mut body = Body::new(3);
    body.put(A + 7, &[b'a'; 2 * PAGE as usize]);
    let plan = plan(nr(libc::SYS_unlink), &[A + 7], &mut body).expect("packs");
    let path = plan.packed.path().expect("a path");
    assert_eq!(path.len(), 4096);
}

#[test]
fn null_and_bad_pointers_are_sent_home_unchanged() {
    let mut body = Body::new(1);
    let times = call(nr(libc::SYS_utimensat), &[3, 0, 0, 0], &mut body, |home| {
        assert_eq!(home.args, [3, 0, 0, 0, 0, 0]);
        Ok(0)
    });
    assert_eq!(times, 0);
    // The kernel checks the descriptor first.
    for buf in [0, 1, HOLE, u64::MAX - 1] {
        let ret = call(nr(libc::SYS_write), &[99, buf, 5], &mut body, |home| {
            assert!(home.read(home.args[1], 5).is_err());
            assert_eq!(home.args[2], 5);
            Ok(-i64::from(libc::EBADF))
        });
        assert_eq!(ret, -i64::from(libc::EBADF));
    }
    let high = plan(nr(libc::SYS_write), &[1, 1 << 50, 5], &mut body);
    assert!(matches!(high, Err(Refuse::ComeHome(_))));
}

#[test]
fn read_returns_what_was_read() {
    let check = |addr: u64, len: u64, ret: i64, want: i64, written: usize| {
        let mut body = Body::new(2);
        body.map(A + 2 * PAGE, 1, false);
        let got = call(nr(libc::SYS_read), &[4, addr, len], &mut body, |home| {
            if ret > 0 {
                home.write(home.args[1], &vec![b'r'; ret as usize])?;
            }
            Ok(ret)
        });
        assert_eq!(got, want, "{addr:#x} {len}");
        let now = body.get(A, 3 * PAGE as usize);
        assert_eq!(now.iter().filter(|&&b| b == b'r').count(), written);
        let first = now.iter().position(|&b| b == b'r');
        assert_eq!(
            first.unwrap_or(0),
            if written > 0 { (addr - A) as usize } else { 0 }
        );
    };
    check(A, 100, 10, 10, 10);
    check(A + 3, 100, 100, 100, 100);
    check(A + 3, 100, 0, 0, 0);
    check(A, 100, -11, -11, 0);
    check(A + PAGE - 8, 16, 16, 16, 16);
    check(A + 2 * PAGE - 8, 16, 16, 8, 8); // the rest is read-only
    check(A + 2 * PAGE, 16, 16, EFAULT, 0);
    check(0, 16, 16, EFAULT, 0);
    check(0, 0, 0, 0, 0);
    check(A, u64::MAX, 5, EFAULT, 0);
    check(A, i64::MAX as u64, 5, EFAULT, 0);
}

#[test]
fn read_sends_no_bytes_of_its_buffer() {
    let mut body = Body::new(16);
    let plan = plan(nr(libc::SYS_read), &[0, A, 60000], &mut body).expect("packs");
    assert_eq!(plan.packed.data.len(), 0);
    assert_eq!(plan.packed.span(), 60000);
    assert_eq!(plan.packed.args, [0, 0, 60000, 0, 0, 0]);
    assert_eq!(plan.packed.arg_ptrs, 0b10);
}

#[test]
fn large_transfers_come_home() {
    let mut body = Body::new(1);
    let cap = CAP as u64;
    assert!(plan(nr(libc::SYS_read), &[0, A, cap], &mut body).is_ok());
    for call in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
    ] {
        let refused = plan(nr(call), &[0, A, cap + 1], &mut body);
        assert!(matches!(refused, Err(Refuse::ComeHome(_))), "{call}");
    }
}

#[test]
fn write_stops_where_memory_ends() {
    let check = |addr: u64, len: u64, want: i64| {
        let mut body = Body::new(1);
        let ret = call(nr(libc::SYS_write), &[1, addr, len], &mut body, |home| {
            let bytes = home.read(home.args[1], home.args[2] as usize)?;
            assert!(bytes.iter().all(|&b| b == 0xee));
            Ok(bytes.len() as i64)
        });
        assert_eq!(ret, want, "{addr:#x} {len}");
    };
    check(A, 5, 5);
    check(A, PAGE, PAGE as i64);
    check(A + PAGE - 5, 100, 5);
    check(A, 0, 0);
    check(A + PAGE, 100, EFAULT);
    check(HOLE, 1, EFAULT);
}

#[test]
fn direct_io_keeps_its_alignment() {
    let mut body = Body::new(4);
    let args = [1, A + 512, 1024, 0, 0, 0];
    let plan = pack(nr(libc::SYS_pwrite64), &args, &mut body, CAP).expect("packs");
    assert_eq!(plan.packed.args[1] % 512, 0);
    let iov = body.put_words(A, &[A + 512, 512, A + 1024, 1024]);
    let plan =
        crate::common::plan(nr(libc::SYS_preadv), &[1, iov, 2, 0, 0], &mut body).expect("packs");
    for out in &plan.packed.outs {
        assert_eq!(out.off % 512, 0);
    }
}

#[test]
fn writev_gathers() {
    let check = |segments: &[(u64, u64)], want: &[u8], ret: i64| {
        let mut body = Body::new(1);
        body.put(A + 0x800, b"hello world");
        let tail = b"tail";
        body.put(A + PAGE - 4, tail);
        let words: Vec<u64> = segments
            .iter()
            .flat_map(|&(base, len)| [base, len])
            .collect();
        let iov = body.put_words(A, &words);
        let args = [1, iov, segments.len() as u64];
        let got = call(nr(libc::SYS_writev), &args, &mut body, |home| {
            let mut all = Vec::new();
            for i in 0..home.args[2] {
                let base = home.word(home.args[1] + i * 16)?;
                let len = home.word(home.args[1] + i * 16 + 8)?;
                if len > 0 {
                    all.extend(home.read(base, len as usize)?);
                }
            }
            assert_eq!(all, want);
            Ok(all.len() as i64)
        });
        assert_eq!(got, ret, "{segments:x?}");
    };
    let hello = (A + 0x800, 5);
    check(&[hello, (A + 0x805, 6)], b"hello world", 11);
    check(
        &[hello, (0, 0), (HOLE, 0), (A + 0x805, 6)],
        b"hello world",
        11,
    );
    check(&[hello, (A + PAGE - 4, 10), hello], b"hellotail", 9);
    check(&[hello, (HOLE, 10), hello], b"hello", 5);
    check(&[hello, (0, 10), hello], b"hello", 5);
    check(&[(HOLE, 10), hello], b"", EFAULT);
    check(&[], b"", 0);
}

#[test]
fn readv_scatters() {
    let check = |total: i64, want: &[&str]| {
        let mut body = Body::new(1);
        body.put(A + 0x400, &[b'.'; 0x400]);
        let iov = body.put_words(A, &[A + 0x400, 3, A + 0x500, 0, A + 0x600, 4, A + 0x700, 5]);
        let got = call(nr(libc::SYS_readv), &[1, iov, 4], &mut body, |home| {
            let mut left = b"abcdefghijkl".to_vec();
            left.truncate(total.max(0) as usize);
            for i in 0..home.args[2] {
                let base = home.word(home.args[1] + i * 16)?;
                let len = home.word(home.args[1] + i * 16 + 8)? as usize;
                let rest = left.split_off(len.min(left.len()));
                if len > 0 {
                    home.write(base, &left)?;
                }
                left = rest;
            }
            Ok(total)
        });
        assert_eq!(got, total);
        for (at, want) in [A + 0x400, A + 0x600, A + 0x700].into_iter().zip(want) {
            let text = body.get(at, want.len());
            assert_eq!(str::from_utf8(&text), Ok(*want), "total {total}");
        }
    };
    check(12, &["abc.", "defg.", "hijkl."]);
    check(5, &["abc.", "de...", "......"]);
    check(3, &["abc.", ".....", "......"]);
    check(0, &["....", ".....", "......"]);
    check(-4, &["....", ".....", "......"]);
}

#[test]
fn invalid_vectors_fail_at_home() {
    let mut body = Body::new(8);
    let iov = body.put_words(A, &[A, u64::MAX, A, 5]);
    let negative = plan(nr(libc::SYS_readv), &[1, iov, 2], &mut body).expect("packs");
    assert!(negative.packed.outs.is_empty());
    for count in [1025, u64::from(u32::MAX), (-1i64) as u64] {
        let many = plan(nr(libc::SYS_writev), &[1, iov, count], &mut body).expect("packs");
        assert_eq!(many.packed.arg_ptrs, 0, "{count}");
        assert_eq!(many.packed.args[2], count);
    }
    let hole = plan(nr(libc::SYS_writev), &[1, HOLE, 1], &mut body).expect("packs");
    assert_eq!(hole.packed.arg_ptrs, 0);
}

#[test]
fn structs_are_returned_whole() {
    let check = |call_nr: libc::c_long, args: &[u64], arg: usize, size: usize| {
        let mut body = Body::new(1);
        body.put(A, b"/f\0");
        let to = args[arg];
        let ret = call(nr(call_nr), args, &mut body, |home| {
            home.write(home.args[arg], &vec![7; size])?;
            Ok(0)
        });
        assert_eq!(ret, 0);
        let got = body.get(to, size + 1);
        assert_eq!(got[..size], vec![7; size], "call {call_nr}");
        assert_eq!(got[size], 0xee);
        let failed = call(nr(call_nr), args, &mut body, |_| Ok(-2));
        assert_eq!(failed, -2);
    };
    let to = A + 0x100;
    check(libc::SYS_stat, &[A, to], 1, 144);
    check(libc::SYS_fstat, &[3, to], 1, 144);
    check(libc::SYS_newfstatat, &[3, A, to, 0], 2, 144);
    check(libc::SYS_statx, &[3, A, 0, 0, to], 4, 256);
    check(libc::SYS_statfs, &[A, to], 1, 120);
    check(libc::SYS_pipe, &[to], 0, 8);
    check(libc::SYS_uname, &[to], 0, 390);
    check(libc::SYS_sysinfo, &[to], 0, 112);
    check(libc::SYS_getrlimit, &[3, to], 1, 16);
    check(libc::SYS_ioctl, &[0, 0x5401, to], 2, 36);
    check(libc::SYS_ioctl, &[0, 0x802c_542a, to], 2, 44);
    check(libc::SYS_ioctl, &[0, 0x5413, to], 2, 8);
    check(libc::SYS_fcntl, &[0, 16, to], 2, 8);
    check(libc::SYS_timerfd_gettime, &[0, to], 1, 32);
}

#[test]
fn command_determines_the_argument() {
    let mut body = Body::new(1);
    body.put(A, &[9; 64]);
    let check = |body: &mut Body, args: &[u64], call_nr: libc::c_long, sent: usize, outs: usize| {
        let plan = plan(nr(call_nr), args, body).expect("packs");
        assert_eq!(plan.packed.data.len(), sent, "{args:x?}");
        assert_eq!(plan.packed.outs.len(), outs, "{args:x?}");
    };
    check(&mut body, &[0, 0x5402, A], libc::SYS_ioctl, 36, 0);
    check(&mut body, &[0, 0x5421, A], libc::SYS_ioctl, 4, 0);
    check(&mut body, &[0, 0x540e, 1], libc::SYS_ioctl, 0, 0);
    check(&mut body, &[0, 0x8913, A], libc::SYS_ioctl, 40, 1);
    check(&mut body, &[0, 5, A], libc::SYS_fcntl, 32, 1);
    check(&mut body, &[0, 6, A], libc::SYS_fcntl, 32, 0);
    check(&mut body, &[0, 38, A], libc::SYS_fcntl, 32, 0);
    check(&mut body, &[0, 0, 10], libc::SYS_fcntl, 0, 0);
    body.put(A + 4, b"\0");
    check(&mut body, &[15, A], libc::SYS_prctl, 5, 0);
    check(&mut body, &[37, A], libc::SYS_prctl, 0, 1);
    check(&mut body, &[1, 9], libc::SYS_prctl, 0, 0);
    check(&mut body, &[1, 0, 2, A], libc::SYS_semctl, 0, 1);
    check(&mut body, &[1, 0, 16, 5], libc::SYS_semctl, 0, 0);
    check(&mut body, &[1, 1, A], libc::SYS_msgctl, 120, 0);
    for (call_nr, command) in [(libc::SYS_ioctl, 0x8912), (libc::SYS_fcntl, 999)] {
        let refused = plan(nr(call_nr), &[0, command, A], &mut body);
        assert!(matches!(refused, Err(Refuse::ComeHome(_))));
    }
}

#[test]
fn lock_query_changes_only_what_the_kernel_changed() {
    let mut body = Body::new(1);
    body.put(A, &[1; 32]);
    let ret = call(nr(libc::SYS_fcntl), &[3, 5, A], &mut body, |home| {
        assert_eq!(home.read(home.args[2], 32)?, [1; 32]);
        home.write(home.args[2], &2u16.to_le_bytes())?; // F_UNLCK
        Ok(0)
    });
    assert_eq!(ret, 0);
    assert_eq!(body.get(A, 5), [2, 0, 1, 1, 1]);
    assert_eq!(body.writes, [(A, 4)]);
}

#[test]
fn counted_results_are_returned() {
    let check = |call_nr: libc::c_long, args: &[u64], arg: usize, ret: i64, bytes: usize| {
        let mut body = Body::new(2);
        body.put(A, b"name\0");
        let to = args[arg];
        let got = call(nr(call_nr), args, &mut body, |home| {
            home.write(home.args[arg], &vec![7; bytes])?;
            Ok(ret)
        });
        assert_eq!(got, ret);
        let now = body.get(to, bytes + 1);
        assert_eq!(now[..bytes], vec![7; bytes], "call {call_nr}");
        assert_eq!(now[bytes], 0xee, "call {call_nr}");
    };
    let to = A + 0x100;
    check(libc::SYS_getdents64, &[3, to, 0xdead_0000_0400], 1, 48, 48);
    check(libc::SYS_getcwd, &[to, 256], 0, 6, 6);
    check(libc::SYS_readlink, &[A, to, 64], 1, 9, 9);
    check(libc::SYS_readlinkat, &[3, A, to, 64], 2, 64, 64);
    check(libc::SYS_getxattr, &[A, A, to, 64], 2, 5, 5);
    check(libc::SYS_listxattr, &[A, to, 64], 1, 5, 5);
    check(libc::SYS_getgroups, &[10, to], 1, 3, 12);
    check(libc::SYS_getgroups, &[0, to], 1, 30, 0);
    check(libc::SYS_sched_getaffinity, &[0, 128, to], 2, 8, 8);
    check(libc::SYS_epoll_wait, &[5, to, 8, 0], 1, 2, 24);
    check(libc::SYS_epoll_wait, &[5, to, 8, 0], 1, 0, 0);
    check(libc::SYS_msgrcv, &[5, to, 100, 0, 0], 1, 4, 12);
    check(libc::SYS_msgrcv, &[5, to, 0, 0, 0], 1, 0, 8);
    check(libc::SYS_mq_timedreceive, &[5, to, 100, 0, 0], 1, 7, 7);
    check(libc::SYS_recvfrom, &[5, to, 100, 0, 0, 0], 1, 7, 7);
    // MSG_TRUNC: there was more than was requested.
    check(libc::SYS_recvfrom, &[5, to, 8, 0x20, 0, 0], 1, 900, 8);
}

#[test]
fn offsets_are_updated() {
    let mut body = Body::new(1);
    body.put_words(A, &[100]);
    let ret = call(nr(libc::SYS_sendfile), &[1, 2, A, 50], &mut body, |home| {
        assert_eq!(home.word(home.args[2])?, 100);
        home.write(home.args[2], &150u64.to_le_bytes())?;
        Ok(50)
    });
    assert_eq!((ret, body.word32(A)), (50, 150));
}

#[test]
fn output_rules_give_byte_counts() {
    let check = |rule: OutRule, len: u32, ret: i64, want: usize| {
        let out = armento_abi::Out { off: 0, len, rule };
        assert_eq!(out_len(&out, ret), want, "{rule:?} {ret}");
        assert_eq!(armento_abi::Out::from_words(out.to_words()), Some(out));
    };
    check(OutRule::OnSuccess, 10, 0, 10);
    check(OutRule::OnSuccess, 10, -1, 0);
    check(OutRule::Always, 10, -1, 10);
    check(OutRule::OnEintr, 16, -4, 16);
    check(OutRule::OnEintr, 16, -516, 16);
    check(OutRule::OnEintr, 16, 0, 0);
    check(OutRule::AtLeast(2), 10, 1, 0);
    check(OutRule::AtLeast(2), 10, 2, 10);
    check(OutRule::RetBytes { skip: 5 }, 10, 3, 0);
    check(OutRule::RetBytes { skip: 5 }, 10, 8, 3);
    check(OutRule::RetBytes { skip: 5 }, 10, i64::MAX, 10);
    check(OutRule::RetPlus(8), 100, 4, 12);
    check(OutRule::RetPlus(8), 100, -4, 0);
    check(OutRule::RetTimes(12), 100, 2, 24);
    check(OutRule::RetTimes(12), 100, i64::MAX, 100);
    assert_eq!(armento_abi::Out::from_words([0, 0, 7, 0]), None);
}

#[test]
fn inconsistent_calls_are_refused() {
    let mut body = Body::new(1);
    body.put(A, b"/f\0");
    let good = plan(nr(libc::SYS_stat), &[A, A + 64], &mut body)
        .expect("packs")
        .packed;
    let check = |change: &dyn Fn(&mut Packed), fine: bool| {
        let mut packed = good.clone();
        change(&mut packed);
        assert_eq!(packed.check(CAP).is_ok(), fine, "{packed:?}");
    };
    check(&|_| {}, true);
    check(&|p| p.nr = 101, false); // ptrace
    check(&|p| p.nr = 39, false); // getpid runs at the body
    check(&|p| p.nr = 400, false);
    check(&|p| p.outs[0].off = CAP as u32, false);
    check(&|p| p.outs[0].len = u32::MAX, false);
    check(&|p| p.args[0] = 1 << 40, false);
    check(&|p| p.relocs.push(p.data.len() as u32), false);
    check(&|p| p.relocs.push(u32::MAX), false);
    check(&|p| p.outs = vec![p.outs[0]; Packed::MAX_OUTS + 1], false);
    assert!(good.check(16).is_err());
    let mut area = vec![0; good.span()];
    good.copy_to(BASE, &mut area);
    assert_eq!(&area[..3], b"/f\0");
}

#[test]
fn truncated_reply_is_an_error() {
    let mut body = Body::new(1);
    let plan = plan(nr(libc::SYS_read), &[0, A, 100], &mut body).expect("packs");
    let ret = armento_abi::unpack(&plan, 10, &[0; 9], &mut body);
    assert_eq!(ret, -i64::from(libc::EIO));
    assert!(body.writes.is_empty());
}
