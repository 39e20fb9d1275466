//! `--on NODE` that cannot be obeyed: the program does not begin, and its shell reads 125.
//!
//! From: `keeper/src/launch/keeper.rs` (before the exec), `placement.rs` (at the exec, when the move has failed).
//! Next: the program's standard error.

use super::prepare::CS_32;
use crate::calls::serve_host;
use crate::hosts::connect_host;
use crate::lifecycle::process_gone;
use crate::state::{Keep, Tree, tell_user};
use armento_migrate::stop_threads::{StoppedThreads, cannot_be_traced};
use armento_migrate::{Local, MigrateError};
use armento_model::{NodeName, Pid, Stay};
use armento_tracee::call::vdso_syscall;
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::{maps, sys, trace};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// As `run` exits for failures of ours.
const FAILED: u64 = 125;
/// A program that is for one node only is not given up for a connection that breaks: so long it is tried to begin it. A
/// node that is gone is `down` to the daemon sooner (some 5 s), and that is another reason.
const LINKS_MAX: Duration = Duration::from_secs(15);
const LINK_AGAIN: Duration = Duration::from_millis(100);
/// KERNEL: arch/x86/entry/syscalls/syscall_32.tbl.
const EXIT_GROUP_32: i64 = 252;

/// Before anything is started: whether there is a host on the node that was named, and the program may be moved. The
/// text and the hint of a refusal.
pub fn refuses_start(
    keep: &Arc<Keep>,
    on: Option<&NodeName>,
    seized: bool,
) -> Option<(String, &'static str)> {
    let node = on.filter(|n| **n != keep.settings.node)?;
    let program = keep.settings.root;
    let way = match seized {
        true => while_links_break(|| connect_host(keep, node, program, 0, serve_host).map(drop)),
        false => Err(cannot_be_traced(0)),
    };
    way.err().map(|e| (what(node, &e), e.stay().remedy()))
}

/// Tries again what failed because a connection broke: the next one may hold.
pub fn while_links_break<T>(
    mut begin: impl FnMut() -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    let until = Instant::now() + LINKS_MAX;
    loop {
        match begin() {
            Err(e) if e.stay() == Stay::LinkLost && Instant::now() < until => sleep(LINK_AGAIN),
            done => return done,
        }
    }
}

fn what(node: &NodeName, e: &MigrateError) -> String {
    match e.detail() {
        detail if detail.is_empty() => format!("it cannot run on {node}: {}", e.stay()),
        detail => format!("it cannot run on {node}: {}: {detail}", e.stay()),
    }
}

/// Its move has failed. A program that has not begun ends; one that has goes on at home. Either is told on its standard
/// error. One that was killed meanwhile has refused nothing: its parent reads how it ended.
pub fn after(t: &mut Tree, pid: Pid, node: &NodeName, e: &MigrateError) {
    let ends = t.awaits_named_node(pid);
    if !matches!(e, MigrateError::Ended) {
        let left = if ends {
            "it was not begun"
        } else {
            "it goes on at home"
        };
        let line = format!(
            "armento: {}; {left}\nhint: {}\n",
            what(node, e),
            e.stay().remedy()
        );
        tell_user(pid, &line);
    }
    if ends && let Err(e) = end(t, pid) {
        eprintln!("process {pid} cannot be ended: {e}");
        let _ = sys::kill(pid, libc::SIGKILL);
    }
    if ends {
        process_gone(t, pid);
    }
}

/// Before: it is seized and stands still.
fn end(t: &mut Tree, pid: Pid) -> Result<(), MigrateError> {
    let halted = t.take_standing(pid).ok_or(MigrateError::Ended)?;
    let mut stopped = StoppedThreads::new(pid);
    stopped.seized.insert(pid);
    // From wherever it stands to the user-mode boundary.
    trace::interrupt(pid)?;
    trace::resume(halted.thread, 0)?;
    stopped.halt_one(pid)?;
    let mut hold = Hold::take(pid, Arc::new(Unfiltered))?;
    let (at, nr) = match hold.regs.cs {
        CS_32 => {
            hold.regs.rbx = FAILED;
            (int_80(pid)?, EXIT_GROUP_32)
        }
        _ => (vdso_syscall(pid)?.0, libc::SYS_exit_group),
    };
    let ended = hold.call_at(at, nr, [FAILED, 0, 0, 0, 0, 0]);
    let _ = stopped.disband();
    match ended.map_err(MigrateError::from) {
        Err(MigrateError::Ended) => Ok(()),
        Err(e) => Err(e),
        Ok(r) => Err(std::io::Error::from_raw_os_error(-r as i32)).local("end the program"),
    }
}

/// KERNEL: arch/x86/entry/vdso/vdso32/system_call.S: `int $0x80` stands there for restarts, whatever else is used.
fn int_80(pid: Pid) -> Result<u64, MigrateError> {
    let none = || MigrateError::Stays(Stay::ThirtyTwoBit, "its vDSO has no int 0x80".into());
    let maps = maps::read(pid).of_process("read its mappings")?;
    let vdso = maps.iter().find(|v| v.name == "[vdso]").ok_or_else(none)?;
    let mut image = vec![0u8; vdso.len() as usize];
    let n = sys::vm_read(pid, vdso.start, &mut image).of_process("read its memory")?;
    let at = image[..n].windows(2).position(|w| w == [0xcd, 0x80]);
    at.map(|at| vdso.start + at as u64).ok_or_else(none)
}
