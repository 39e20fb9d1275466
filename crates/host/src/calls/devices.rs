//! Devices that are the same on every machine: /dev/null, zero, full, random and urandom.
//!
//! From: `dispatch.rs`. Home has said that the descriptor refers to one (`state/descriptors.rs`); else its calls are forwarded.

use crate::state::{GuestThread, Host};
use crate::sync::lock;
use armento_tracee::notify::Notice;
use armento_tracee::region::USER_END;
use armento_wire::talk::DeviceKind;
use std::sync::Arc;

/// More at once is forwarded.
const LEN_MAX: u64 = 1 << 20;

/// Answers a read or write of a device. `false`: it is to be forwarded, or is none.
pub fn served(host: &Arc<Host>, thread: &Arc<GuestThread>, n: &Notice) -> bool {
    let ret = match i64::from(n.nr) {
        libc::SYS_read => read(thread, n),
        libc::SYS_write => write(thread, n),
        _ => None,
    };
    let Some(ret) = ret else { return false };
    let mut st = lock(&thread.call);
    if st.done > 0 {
        return false;
    }
    st.again = None;
    drop(st);
    lock(&thread.proc.files).devices += 1;
    host.listener.reply(n.id, ret);
    true
}

fn read(thread: &GuestThread, n: &Notice) -> Option<i64> {
    let device = lock(&thread.proc.descriptors).device(n.args[0] as i32)?;
    let len = n.args[2];
    if !device.reads || len > LEN_MAX {
        return None;
    }
    let bytes = match device.kind {
        DeviceKind::Null => return Some(0),
        DeviceKind::Zero | DeviceKind::Full => vec![0; len as usize],
        DeviceKind::Random => crate::sys::random(len as usize)?,
    };
    // Home's kernel has the right error for memory that cannot be written.
    thread.write(n.args[1], &bytes).then_some(len as i64)
}

fn write(thread: &GuestThread, n: &Notice) -> Option<i64> {
    let device = lock(&thread.proc.descriptors).device(n.args[0] as i32)?;
    let len = n.args[2];
    // KERNEL: access_ok: only the address is looked at.
    let fine = n.args[1]
        .checked_add(len)
        .is_some_and(|end| end <= USER_END);
    if !device.writes || len == 0 || len > LEN_MAX || !fine {
        return None;
    }
    match device.kind {
        DeviceKind::Null | DeviceKind::Zero => Some(len as i64),
        DeviceKind::Full => Some(-i64::from(libc::ENOSPC)),
        // It changes home's pool.
        DeviceKind::Random => None,
    }
}
