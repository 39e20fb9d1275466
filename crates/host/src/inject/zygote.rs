//! The zygote: an empty, stopped process with the filter, from which bodies are made.

use super::clone::{clone_args, made, wait_first_stop};
use crate::isolation::Guests;
use armento_migrate::stop_threads::StoppedThreads;
use armento_migrate::{Local, MigrateError, Result};
use armento_model::HomePid;
use armento_tracee::inject::{Allowlist, Hold};
use armento_tracee::notify::{FILTER_FLAGS, Listener, SET_MODE_FILTER};
use armento_tracee::region::{BASE, Code};
use armento_tracee::trace::{self, Stopped};
use armento_tracee::{maps, status, sys};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Seizes the zygote, empties it and gives it the filter. Call from the tracer thread.
pub fn prepare(g: &Guests, code: &Code) -> Result<(Stopped, Listener)> {
    let zygote = find(g.guard)?;
    let mut stopped = StoppedThreads::new(zygote);
    stopped.halt(trace::FOLLOW | trace::EXITKILL)?;
    let mut h = Hold::take(zygote, Arc::new(armento_tracee::inject::Unfiltered))?;
    let rseq = trace::rseq(zygote).unwrap_or_default();
    let mut calls = vec![
        (libc::SYS_set_robust_list, [0, 24, 0, 0, 0, 0]),
        (libc::SYS_set_tid_address, [0; 6]),
    ];
    if rseq.len != 0 {
        calls.push((
            libc::SYS_rseq,
            [rseq.ptr, rseq.len.into(), 1, rseq.sig.into(), 0, 0],
        ));
    }
    let off: Vec<u8> = [0u64, 2, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    calls.push((
        libc::SYS_sigaltstack,
        [code.scratch(0, &off), 0, 0, 0, 0, 0],
    ));
    for v in maps::read(zygote)
        .of_process("read its mappings")?
        .iter()
        .filter(|v| !v.is_vsyscall() && v.start < BASE || v.start >= BASE + (1 << 40))
    {
        if !v.is_vsyscall() {
            calls.push((libc::SYS_munmap, [v.start, v.len(), 0, 0, 0, 0]));
        }
    }
    h.batch_ok(code, "empty the zygote", &calls)?;
    let fd = h
        .call(
            code,
            libc::SYS_seccomp,
            [SET_MODE_FILTER, FILTER_FLAGS, filter_at(code), 0, 0, 0],
        )?
        .0;
    let fd = armento_tracee::inject::ok("seccomp", zygote, fd)?;
    // The zygote and every body keep the listener's descriptor too: as long as one of them lives it
    // cannot close, so a killed host leaves calls waiting (and bodies dying), never answered ENOSYS.
    let listener = Listener::new(sys::steal_fd(zygote, fd as i32).of_process("take its listener")?);
    let mut regs = h.regs;
    regs.orig_rax = u64::MAX;
    regs.rip = code.gate;
    regs.rsp = 0;
    h.finish(regs, !0)?;
    // It has one thread.
    let first = stopped.disband().pop().ok_or(MigrateError::Ended)?;
    Ok((first.thread, listener))
}

/// struct sock_fprog and the program, in scratch.
fn filter_at(code: &Code) -> u64 {
    let program = armento_abi::filter::program();
    let mut raw = Vec::with_capacity(program.len() * 8);
    for i in &program {
        raw.extend_from_slice(&i.code.to_le_bytes());
        raw.extend_from_slice(&[i.jt, i.jf]);
        raw.extend_from_slice(&i.k.to_le_bytes());
    }
    let at = code.scratch(0x10000, &raw);
    let head: Vec<u8> = (program.len() as u64)
        .to_le_bytes()
        .into_iter()
        .chain(at.to_le_bytes())
        .collect();
    code.scratch(0x100, &head)
}

fn find(guard: i32) -> Result<i32> {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        for pid in status::children(guard) {
            // Ready when it sleeps in pause with everything set up.
            if status::comm(pid, pid) == "armento-zygote" && paused(pid) {
                return Ok(pid);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Err(MigrateError::Stays(
        armento_model::Stay::TargetFailed,
        "the guests' namespaces could not be made".into(),
    ))
}

fn paused(pid: i32) -> bool {
    let text = armento_tracee::text::read(format!("/proc/{pid}/syscall")).unwrap_or_default();
    text.starts_with(&format!("{} ", libc::SYS_pause))
}

/// A new, stopped child of the zygote with this pid in the guests' namespace.
pub fn new_body(
    zygote: &Stopped,
    code: &Code,
    allowlist: &Arc<dyn Allowlist>,
    pid: HomePid,
) -> Result<Stopped> {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        let mut h = Hold::take(zygote.tid(), allowlist.clone())?;
        let args = clone_args(
            code,
            libc::CLONE_PARENT as u64,
            0,
            0,
            0,
            0,
            Some(pid.leader()),
        );
        let (r, child) = h.call(code, libc::SYS_clone3, [args, 88, 0, 0, 0, 0])?;
        drop(h);
        match (r, made(r, child)) {
            (_, Some(child)) => {
                return wait_first_stop(child);
            }
            // The last body with this number is not quite gone.
            (r, _) if r == -i64::from(libc::EEXIST) && Instant::now() < until => {
                std::thread::sleep(Duration::from_micros(100));
            }
            (r, _) => {
                return Err(armento_tracee::TraceError::Inside {
                    what: "clone3",
                    tid: zygote.tid(),
                    errno: -r as i32,
                }
                .into());
            }
        }
    }
}
