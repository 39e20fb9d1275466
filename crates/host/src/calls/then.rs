//! What is to be done with the reply to a call, beside handing it on. Pure.

use super::direct_calls::duplicates;
use crate::state::{PartialIo, Then};
use armento_abi::sends;
use armento_tracee::notify::Notice;

pub fn then(n: &Notice) -> Then {
    let (nr, timer) = (n.nr as u64, n.args[0] as i32);
    if sends::gathers(nr, &n.args) || sends::sends(nr, &n.args) {
        return Then::PartialIo(PartialIo {
            nr: n.nr,
            args: n.args,
            done: 0,
            asked: None,
        });
    }
    if let Some(old) = duplicates(n.nr.into(), &n.args) {
        return Then::Duplicated(old);
    }
    match i64::from(n.nr) {
        libc::SYS_timer_getoverrun => Then::Overrun(timer),
        libc::SYS_timer_delete => Then::TimerGone(timer),
        _ => Then::Nothing,
    }
}
