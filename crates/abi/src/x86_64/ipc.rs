//! System V semaphores and messages, keys.

use crate::Arg::{In, Out, Path, Sub, Val};
use crate::Len::{Arg as Bytes, ArgPlus, ArgTimes, Const, RetPlus};
use crate::row::{Row, come, home};

/// The message type that precedes the text.
const MTYPE: u32 = 8;
const OPS: crate::Arg = In(ArgTimes(2, 6));

pub const ROWS: &[Row] = &[
    home(64, "semget", &[Val, Val, Val]),
    home(65, "semop", &[Val, OPS, Val]).eintr().removable(),
    home(66, "semctl", &[Val, Val, Val, Sub]).note("GETALL and SETALL come home"),
    home(68, "msgget", &[Val, Val]),
    home(69, "msgsnd", &[Val, In(ArgPlus(2, MTYPE)), Val, Val]).removable(),
    home(70, "msgrcv", &[Val, Out(RetPlus(2, MTYPE)), Val, Val, Val]).removable(),
    home(71, "msgctl", &[Val, Val, Sub]).note("commands outside the sub-table come home"),
    home(220, "semtimedop", &[Val, OPS, Val, In(Const(16))])
        .eintr()
        .removable(),
    home(248, "add_key", &[Path, Path, In(Bytes(3)), Val, Val]),
    home(249, "request_key", &[Path, Path, Path, Val]),
    come(250, "keyctl", "commands differ in their arguments"),
];
