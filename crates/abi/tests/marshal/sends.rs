//! Calls that write: how many bytes, and what remains of them.

use crate::common::{Body, plan};
use armento_abi::sends;

const A: u64 = 0x10000;
const WRITE: u64 = libc::SYS_write as u64;
const SENDTO: u64 = libc::SYS_sendto as u64;

/// A body with three segments, one of them empty, and a message of them.
fn body() -> Body {
    let mut body = Body::new(2);
    body.put_words(A, &[A + 0x800, 5, A + 0x900, 0, A + 0xa00, 7]);
    body.put_words(A + 0x100, &[0, 0, A, 3, A + 0x200, 24, 0]);
    body
}

fn calls() -> [(u64, [u64; 6], u64); 4] {
    [
        (WRITE, [4, A + 0x800, 12, 0, 0, 0], 12),
        (libc::SYS_writev as u64, [4, A, 3, 0, 0, 0], 12),
        (SENDTO, [4, A + 0x800, 12, 0, 0, 0], 12),
        (libc::SYS_sendmsg as u64, [4, A + 0x100, 0, 0, 0, 0], 12),
    ]
}

#[test]
fn payload_is_equal_packed_and_in_the_body() {
    let mut body = body();
    for (nr, args, want) in calls() {
        assert_eq!(sends::payload(nr, &args, &mut body), Some(want), "{nr}");
        let packed = plan(nr, &args, &mut body).expect("packed").packed;
        assert_eq!(sends::packed_payload(&packed), Some(want), "{nr}");
    }
    let read = [4, A, 10, 0, 0, 0];
    let packed = plan(libc::SYS_read as u64, &read, &mut body).expect("packed");
    assert_eq!(sends::packed_payload(&packed.packed), None);
    let too_many = [4, A, 1025, 0, 0, 0];
    assert_eq!(sends::payload(calls()[1].0, &too_many, &mut body), None);
}

#[test]
fn remaining_bytes_are_sent_segment_by_segment() {
    let mut body = body();
    let [write, writev, sendto, sendmsg] = calls();
    let mut check = |(nr, args, _): (u64, [u64; 6], u64), put, want| {
        let rest = sends::rest(nr, &args, &mut body, put);
        let rest = rest.map(|(nr, args)| (nr, args[1], args[2]));
        assert_eq!(rest, want, "{nr} behind {put}");
    };
    check(write, 0, Some((WRITE, A + 0x800, 12)));
    check(write, 9, Some((WRITE, A + 0x809, 3)));
    check(write, 12, None);
    check(writev, 2, Some((WRITE, A + 0x802, 3)));
    check(writev, 5, Some((WRITE, A + 0xa00, 7)));
    check(writev, 11, Some((WRITE, A + 0xa06, 1)));
    check(writev, 12, None);
    check(sendto, 3, Some((SENDTO, A + 0x803, 9)));
    check(sendmsg, 6, Some((SENDTO, A + 0xa01, 6)));
}

#[test]
fn nonblocking_calls_do_not_wait() {
    let dont = libc::MSG_DONTWAIT as u64;
    let check = |nr: libc::c_long, args: [u64; 6], want| {
        assert_eq!(sends::sends(nr as u64, &args), want, "{nr} {args:?}");
    };
    check(libc::SYS_sendto, [4, A, 9, dont, 0, 0], false);
    check(libc::SYS_sendto, [4, A, 9, 0, 0, 0], true);
    check(libc::SYS_sendmsg, [4, A, dont, 0, 0, 0], false);
    check(libc::SYS_pwrite64, [4, A, 9, 0, 0, 0], false);
}

#[test]
fn continued_send_raises_no_sigpipe() {
    let mut body = body();
    let [_, _, (sendto, mut args, _), (sendmsg, message, _)] = calls();
    args[3] = libc::MSG_MORE as u64;
    let quiet = libc::MSG_NOSIGNAL as u64;
    let flags = |rest: Option<(u64, [u64; 6])>| rest.map(|(_, args)| args[3]);
    let rest = sends::rest(sendto, &args, &mut body, 1);
    assert_eq!(flags(rest), Some(libc::MSG_MORE as u64 | quiet));
    let rest = sends::rest(sendmsg, &message, &mut body, 1);
    assert_eq!(flags(rest), Some(quiet));
}
