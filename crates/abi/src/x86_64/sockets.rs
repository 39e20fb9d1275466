//! Sockets.

use crate::Arg::{Addr, AddrLen, Fd, In, InOut, InOutBy, MmsgIn, MmsgOut, MsgIn, MsgOut, Out, Val};
use crate::Len::{Arg as Bytes, Const, Int, Ret};
use crate::row::{Row, home};

/// KERNEL: sizeof(struct sockaddr_storage); longer addresses are EINVAL.
const NAME: u32 = 128;
/// Any length: one that does not fit into a slot comes home.
const OPTION: u32 = i32::MAX as u32;
const ZEROCOPY: &str = "MSG_ZEROCOPY comes home";

pub const ROWS: &[Row] = &[
    home(41, "socket", &[Val, Val, Val]),
    home(42, "connect", &[Fd, In(Int(2, NAME)), Val]).eintr(),
    home(43, "accept", &[Fd, Addr(2), AddrLen]).eintr(),
    home(
        44,
        "sendto",
        &[Fd, In(Bytes(2)), Val, Val, In(Int(5, NAME)), Val],
    )
    .eintr()
    .note(ZEROCOPY),
    home(
        45,
        "recvfrom",
        &[Fd, Out(Ret(2)), Val, Val, Addr(5), AddrLen],
    )
    .eintr(),
    home(46, "sendmsg", &[Fd, MsgIn, Val])
        .eintr()
        .note(ZEROCOPY),
    home(47, "recvmsg", &[Fd, MsgOut, Val]).eintr(),
    home(48, "shutdown", &[Fd, Val]),
    home(49, "bind", &[Fd, In(Int(2, NAME)), Val]),
    home(50, "listen", &[Fd, Val]),
    home(51, "getsockname", &[Fd, Addr(2), AddrLen]),
    home(52, "getpeername", &[Fd, Addr(2), AddrLen]),
    home(53, "socketpair", &[Val, Val, Val, Out(Const(8))]),
    home(54, "setsockopt", &[Fd, Val, Val, In(Int(4, OPTION)), Val])
        .note("options whose value holds pointers come home"),
    home(55, "getsockopt", &[Fd, Val, Val, InOutBy(4), AddrLen])
        .note("options whose value holds pointers come home"),
    home(288, "accept4", &[Fd, Addr(2), AddrLen, Val]).eintr(),
    home(299, "recvmmsg", &[Fd, MmsgOut, Val, Val, InOut(Const(16))]).eintr(),
    home(307, "sendmmsg", &[Fd, MmsgIn, Val, Val])
        .eintr()
        .note(ZEROCOPY),
];
