//! Children that the tracer thread makes with clone3, inside a guest or the zygote.

use armento_migrate::{MigrateError, Result};
use armento_model::{HomeTid, Tid};
use armento_tracee::region::Code;
use armento_tracee::trace::{self, Regs, Status, Stopped};

/// The child that an injected clone3 made. One that is not traced was made by another thread of the guest, in our name: all
/// guests end with it.
pub fn made(r: i64, child: Option<Tid>) -> Option<Tid> {
    if r > 0 && child.is_none() {
        eprintln!("a guest made itself a child that nobody sees: all guests of this tree end");
        std::process::exit(125);
    }
    child.filter(|_| r > 0)
}

/// The attach stop of a child made under trace.
pub fn wait_first_stop(child: Tid) -> Result<Stopped> {
    match trace::wait_certain(child)? {
        Status::Stopped(thread, _) => Ok(thread),
        _ => Err(MigrateError::Ended),
    }
}

/// Gives a child its caller's registers and mask; `stack`: its own, if not 0. It stays stopped.
pub fn begin_child(child: Tid, stack: u64, caller: &Regs, mask: u64) -> Result<Stopped> {
    let born = wait_first_stop(child)?;
    let own = trace::regs(child)?;
    let mut c = *caller;
    (c.rax, c.orig_rax, c.fs_base, c.gs_base) = (0, u64::MAX, own.fs_base, own.gs_base);
    if stack != 0 {
        c.rsp = stack;
    }
    trace::set_regs(child, &c)?;
    trace::set_sigmask(child, mask)?;
    Ok(born)
}

/// clone3 wants a base and a size, and starts at their sum: a stack is passed as so many bytes below its end.
pub const STACK_SIZE: u64 = 16;

/// struct clone_args (88 bytes) in scratch. KERNEL: clone(2), set_tid 5.5.
pub fn clone_args(
    code: &Code,
    flags: u64,
    stack: u64,
    tls: u64,
    ptid: u64,
    ctid: u64,
    set_tid: Option<HomeTid>,
) -> u64 {
    let tid_at = code.scratch(0x300, &set_tid.unwrap_or_default().to_le_bytes());
    let (base, size) = match stack {
        0 => (0, 0),
        end => (end.saturating_sub(STACK_SIZE), STACK_SIZE),
    };
    let n = u64::from(set_tid.is_some());
    let words = [
        flags,
        0,
        ctid,
        ptid,
        0,
        base,
        size,
        tls,
        if n == 1 { tid_at } else { 0 },
        n,
        0,
    ];
    let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    code.scratch(0x200, &raw)
}
