//! Addresses, messages, options.

use crate::common::{Body, CAP, EFAULT, HOLE, Home, PAGE, call, plan};
use armento_abi::{Fault, Refuse};

const A: u64 = 0x10000;

fn nr(call: libc::c_long) -> u64 {
    call as u64
}

/// Writes an address and its length as a kernel does.
fn name(home: &mut Home, addr: u64, len_at: u64, name: &[u8]) -> Result<(), Fault> {
    let room = home.read(len_at, 4)?;
    let room = u32::from_le_bytes(room.try_into().expect("four")) as usize;
    home.write(addr, &name[..room.min(name.len())])?;
    home.write(len_at, &(name.len() as u32).to_le_bytes())
}

#[test]
fn accept_fills_the_address() {
    let check = |room: u32, peer: &[u8], want: &[u8]| {
        let mut body = Body::new(1);
        body.put(A, &room.to_le_bytes());
        let ret = call(
            nr(libc::SYS_accept),
            &[3, A + 0x100, A],
            &mut body,
            |home| {
                let [_, addr, len, ..] = home.args;
                name(home, addr, len, peer)?;
                Ok(7)
            },
        );
        assert_eq!(ret, 7);
        assert_eq!(body.word32(A) as usize, peer.len());
        assert_eq!(body.get(A + 0x100, want.len()), want);
        assert_eq!(body.get(A + 0x100 + want.len() as u64, 1), [0xee]);
    };
    check(16, &[2; 16], &[2; 16]);
    check(128, &[2; 16], &[2; 16]);
    check(8, &[2; 16], &[2; 8]);
    check(110, &[1, 0], &[1, 0]);
    check(4096, &[1; 110], &[1; 110]);
}

#[test]
fn addresses_may_be_null_or_invalid() {
    let mut body = Body::new(1);
    body.put(A, &16u32.to_le_bytes());
    let absent = call(nr(libc::SYS_accept4), &[3, 0, 0, 0], &mut body, |home| {
        assert_eq!(home.args[1..3], [0, 0]);
        Ok(7)
    });
    assert_eq!(absent, 7);
    for args in [[3, A + 64, HOLE], [3, A + 64, 0], [3, HOLE, HOLE]] {
        let plan = plan(nr(libc::SYS_getsockname), &args, &mut body).expect("packs");
        assert_eq!(plan.packed.arg_ptrs, 0, "{args:x?}");
    }
    let ret = call(
        nr(libc::SYS_getpeername),
        &[3, HOLE, A],
        &mut body,
        |home| {
            let [_, addr, len, ..] = home.args;
            name(home, addr, len, &[2; 16])?;
            Ok(0)
        },
    );
    assert_eq!(ret, EFAULT);
}

#[test]
fn datagrams_carry_addresses() {
    let mut body = Body::new(1);
    body.put(A, b"query");
    body.put(A + 0x40, &[2; 16]);
    let args = [3, A, 5, 0, A + 0x40, 16];
    let sent = call(nr(libc::SYS_sendto), &args, &mut body, |home| {
        assert_eq!(home.read(home.args[1], 5)?, b"query");
        assert_eq!(home.read(home.args[4], 16)?, [2; 16]);
        assert_eq!(home.args[5], 16);
        Ok(5)
    });
    assert_eq!(sent, 5);
    body.put(A + 0x80, &16u32.to_le_bytes());
    let args = [3, A, 100, 0, A + 0x40, A + 0x80];
    let got = call(nr(libc::SYS_recvfrom), &args, &mut body, |home| {
        home.write(home.args[1], b"reply")?;
        let [.., addr, len] = home.args;
        name(home, addr, len, &[9; 16])?;
        Ok(5)
    });
    assert_eq!(got, 5);
    assert_eq!(body.get(A, 6), b"reply\xee");
    assert_eq!(body.get(A + 0x40, 16), [9; 16]);
    // A stream returns no address: nothing is written.
    body.put(A + 0x40, &[1; 16]);
    let stream = call(nr(libc::SYS_recvfrom), &args, &mut body, |home| {
        home.write(home.args[5], &0u32.to_le_bytes())?;
        Ok(0)
    });
    assert_eq!(stream, 0);
    assert_eq!(body.get(A + 0x40, 16), [1; 16]);
    assert_eq!(body.word32(A + 0x80), 0);
}

/// Places a msghdr at A: name at +0x100, two segments at +0x200 and +0x300, control at +0x400.
fn msghdr(body: &mut Body, name_len: u64, control_len: u64) -> u64 {
    body.put_words(A + 0x80, &[A + 0x200, 4, A + 0x300, 6]);
    let name = if name_len > 0 { A + 0x100 } else { 0 };
    let control = if control_len > 0 { A + 0x400 } else { 0 };
    body.put_words(A, &[name, name_len, A + 0x80, 2, control, control_len, 0])
}

#[test]
fn sendmsg_sends_name_data_and_control() {
    let mut body = Body::new(1);
    body.put(A + 0x100, &[1; 20]);
    body.put(A + 0x200, b"abcd");
    body.put(A + 0x300, b"efghij");
    body.put(A + 0x400, &[5; 24]);
    let hdr = msghdr(&mut body, 20, 24);
    let ret = call(nr(libc::SYS_sendmsg), &[3, hdr, 0], &mut body, |home| {
        let hdr = home.args[1];
        assert_eq!(home.read(home.word(hdr)?, 20)?, [1; 20]);
        let iov = home.word(hdr + 16)?;
        assert_eq!(home.read(home.word(iov)?, 4)?, b"abcd");
        assert_eq!(home.read(home.word(iov + 16)?, 6)?, b"efghij");
        assert_eq!(home.word(iov + 24)?, 6);
        assert_eq!(home.read(home.word(hdr + 32)?, 24)?, [5; 24]);
        Ok(10)
    });
    assert_eq!(ret, 10);
    assert!(body.writes.is_empty());
    let fault = call(nr(libc::SYS_sendmsg), &[3, HOLE, 0], &mut body, |home| {
        home.read(home.args[1], 56).map(|_| 0)
    });
    assert_eq!(fault, EFAULT);
}

#[test]
fn recvmsg_returns_name_data_and_control() {
    let mut body = Body::new(1);
    let hdr = msghdr(&mut body, 128, 64);
    let ret = call(nr(libc::SYS_recvmsg), &[3, hdr, 0], &mut body, |home| {
        let hdr = home.args[1];
        home.write(home.word(hdr)?, &[2; 16])?;
        home.write(hdr + 8, &16u32.to_le_bytes())?;
        let iov = home.word(hdr + 16)?;
        home.write(home.word(iov)?, b"abcd")?;
        home.write(home.word(iov + 16)?, b"ef")?;
        home.write(home.word(hdr + 32)?, &[7; 20])?;
        home.write(hdr + 40, &20u64.to_le_bytes())?;
        home.write(hdr + 48, &0x40u32.to_le_bytes())?;
        Ok(6)
    });
    assert_eq!(ret, 6);
    assert_eq!(
        body.get(A + 0x100, 17),
        [[2; 16].as_slice(), &[0xee]].concat()
    );
    assert_eq!(body.get(A + 0x200, 5), b"abcd\xee");
    assert_eq!(body.get(A + 0x300, 3), b"ef\xee");
    assert_eq!(
        body.get(A + 0x400, 21),
        [[7; 20].as_slice(), &[0xee]].concat()
    );
    assert_eq!(body.word32(A + 8), 16);
    assert_eq!(body.word32(A + 40), 20);
    assert_eq!(body.word32(A + 48), 0x40);
    // Pointers of the body are unchanged.
    let words = body.get(A, 56);
    assert_eq!(words[16..24], (A + 0x80).to_le_bytes());
    assert_eq!(words[32..40], (A + 0x400).to_le_bytes());
}

#[test]
fn a_failed_recvmsg_writes_nothing() {
    let mut body = Body::new(1);
    let hdr = msghdr(&mut body, 128, 64);
    let ret = call(nr(libc::SYS_recvmsg), &[3, hdr, 0], &mut body, |_| Ok(-11));
    assert_eq!((ret, body.writes.len()), (-11, 0));
}

/// Two mmsghdr at A, each with one segment.
fn mmsg(body: &mut Body) -> u64 {
    body.put_words(A + 0x200, &[A + 0x400, 8, A + 0x500, 8]);
    body.put_words(A, &[0, 0, A + 0x200, 1, 0, 0, 0, 0]);
    body.put_words(A + 64, &[0, 0, A + 0x210, 1, 0, 0, 0, 0]) - 64
}

#[test]
fn recvmmsg_counts_each_message() {
    let check = |count: i64, want: [&[u8]; 2]| {
        let mut body = Body::new(1);
        let vec = mmsg(&mut body);
        let ret = call(
            nr(libc::SYS_recvmmsg),
            &[3, vec, 2, 0, 0],
            &mut body,
            |home| {
                for (i, text) in [b"one", b"two"]
                    .iter()
                    .enumerate()
                    .take(count.max(0) as usize)
                {
                    let hdr = home.args[1] + 64 * i as u64;
                    let iov = home.word(hdr + 16)?;
                    home.write(home.word(iov)?, *text)?;
                    home.write(hdr + 56, &3u32.to_le_bytes())?;
                }
                Ok(count)
            },
        );
        assert_eq!(ret, count);
        assert_eq!(body.get(A + 0x400, 4), want[0]);
        assert_eq!(body.get(A + 0x500, 4), want[1]);
        assert_eq!(body.word32(A + 56), if count > 0 { 3 } else { 0 });
        assert_eq!(body.word32(A + 64 + 56), if count > 1 { 3 } else { 0 });
    };
    check(2, [b"one\xee", b"two\xee"]);
    check(1, [b"one\xee", b"\xee\xee\xee\xee"]);
    check(-11, [b"\xee\xee\xee\xee", b"\xee\xee\xee\xee"]);
}

#[test]
fn sendmmsg_sends_what_is_mapped() {
    let mut body = Body::new(1);
    let vec = mmsg(&mut body);
    let ret = call(nr(libc::SYS_sendmmsg), &[3, vec, 2, 0], &mut body, |home| {
        let hdr = home.args[1] + 64;
        let iov = home.word(hdr + 16)?;
        assert_eq!(home.read(home.word(iov)?, 8)?, [0xee; 8]);
        home.write(home.args[1] + 56, &8u32.to_le_bytes())?;
        Ok(1)
    });
    assert_eq!((ret, body.word32(A + 56), body.word32(A + 120)), (1, 8, 0));
    let end = A + PAGE - 64;
    let cut = plan(nr(libc::SYS_sendmmsg), &[3, end, 3, 0], &mut body).expect("packs");
    assert_eq!(cut.packed.args[2], 1);
    let none = plan(nr(libc::SYS_sendmmsg), &[3, end + 32, 3, 0], &mut body).expect("packs");
    assert_eq!(none.packed.arg_ptrs, 0);
}

#[test]
fn socket_options_are_read_and_set() {
    let mut body = Body::new(1);
    body.put(A, &1u32.to_le_bytes());
    let set = call(
        nr(libc::SYS_setsockopt),
        &[3, 1, 2, A, 4],
        &mut body,
        |home| {
            assert_eq!(home.read(home.args[3], 4)?, [1, 0, 0, 0]);
            Ok(0)
        },
    );
    assert_eq!(set, 0);
    body.put(A + 16, &8u32.to_le_bytes());
    let get = call(
        nr(libc::SYS_getsockopt),
        &[3, 1, 4, A, A + 16],
        &mut body,
        |home| {
            home.write(home.args[3], &9u32.to_le_bytes())?;
            home.write(home.args[4], &4u32.to_le_bytes())?;
            Ok(0)
        },
    );
    assert_eq!(get, 0);
    assert_eq!((body.word32(A), body.word32(A + 16)), (9, 4));
    assert_eq!(body.get(A + 4, 4), [0xee; 4]);
    body.put(A + 16, &(1u32 << 20).to_le_bytes());
    let large = plan(nr(libc::SYS_getsockopt), &[3, 1, 4, A, A + 16], &mut body);
    assert!(matches!(large, Err(Refuse::ComeHome(_))));
    // Home refuses a negative length.
    let negative = [3, 1, 2, A, (-1i64) as u64];
    assert!(plan(nr(libc::SYS_setsockopt), &negative, &mut body).is_ok());
    let connect = plan(nr(libc::SYS_connect), &[3, A, 5000], &mut body).expect("packs");
    assert_eq!(
        (connect.packed.data.len(), connect.packed.args[2]),
        (128, 5000)
    );
}

#[test]
fn late_data_does_not_overlap_output_buffers() {
    let mut body = Body::new(1);
    body.put(A + 16, &0u32.to_le_bytes());
    let mut recvfrom = |len: usize| {
        let args = [3, A, len as u64, 0, 0, A + 16];
        plan(nr(libc::SYS_recvfrom), &args, &mut body)
    };
    // The length of an address precedes the buffer, which begins at the next multiple of 16.
    let fits = recvfrom(CAP - 16).expect("packs");
    assert_eq!(fits.packed.span(), CAP);
    for len in [CAP - 15, CAP - 4, CAP] {
        assert!(matches!(recvfrom(len), Err(Refuse::ComeHome(_))), "{len}");
    }
}
