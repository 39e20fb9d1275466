//! Makes a process name its tracer to Yama, by an injected call.
//!
//! From: the root daemon (`noded/src/tracing/`), for a keeper that Yama refuses. Only the process itself can name its
//! tracer; a privileged process can inject that call. One thread is stopped for some microseconds: one that computes,
//! if there is one. Its registers are changed and restored, its memory is not written.

use crate::image::restarts;
use crate::stop_threads::{StoppedThreads, delicate_call};
use crate::{MigrateError, Result};
use armento_model::{Pid, Stay, Tid};
use armento_tracee::call::vdso_syscall;
use armento_tracee::inject::{Hold, Unfiltered};
use armento_tracee::yama::PR_SET_PTRACER;
use armento_tracee::{TraceError, status, trace};
use std::sync::Arc;

/// Makes `pid` name `tracer`. `sure` is called while a thread of it is stopped, and again after the call: false undoes
/// it. Blocks for at most a third of a second. Before: this OS thread traces nothing else. After: nothing traces `pid`.
/// Returns the thread that was stopped in a sleep, and its call: from now on the kernel shows only `restart_syscall`
/// for it.
pub fn name_tracer(pid: Pid, tracer: Pid, sure: impl Fn() -> bool) -> Result<Option<(Tid, i64)>> {
    let tid = borrowed(pid)?;
    trace::seize(tid, 0)?;
    let mut stopped = StoppedThreads::new(pid);
    stopped.seized.insert(tid);
    trace::interrupt(tid)?;
    stopped.halt_one(tid)?;
    if !sure() {
        return Err(MigrateError::Ended);
    }
    // If this process ends halfway, the target would go on with wrong registers: it is killed then.
    trace::set_options(tid, trace::EXITKILL)?;
    let named = inject(tid, tracer, &sure);
    let slept = sleeps(tid);
    let _ = trace::set_options(tid, 0);
    named.map(|()| slept.map(|nr| (tid, nr)))
}

/// The call that a stopped thread will continue by a restart block. KERNEL: restart_syscall(2).
fn sleeps(tid: Tid) -> Option<i64> {
    let r = trace::regs(tid).ok()?;
    let nr = r.orig_rax as i64;
    let block = r.rax as i64 == restarts::ERESTART_RESTARTBLOCK;
    (block && nr != libc::SYS_restart_syscall).then_some(nr)
}

fn inject(tid: Tid, tracer: Pid, sure: &impl Fn() -> bool) -> Result<()> {
    let (at, _) = vdso_syscall(tid)?;
    let mut hold = Hold::take(tid, Arc::new(Unfiltered))?;
    let name = |hold: &mut Hold, named: Pid| {
        let args = [PR_SET_PTRACER, named as u64, 0, 0, 0, 0];
        hold.call_at(at, libc::SYS_prctl, args)
    };
    let answer = name(&mut hold, tracer)?;
    if answer == 0 && !sure() {
        name(&mut hold, 0)?;
        return Err(MigrateError::Ended);
    }
    armento_tracee::inject::ok("PR_SET_PTRACER", tid, answer)?;
    Ok(())
}

/// A thread that computes; else the leader, unless a stop would change its call irreversibly.
fn borrowed(pid: Pid) -> Result<Tid> {
    let threads = status::threads(pid).map_err(|_| MigrateError::Ended)?;
    let computes =
        |t: &&Tid| status::thread_state(**t) == Some('R') && status::call(pid, **t).is_none();
    if let Some(tid) = threads.iter().find(computes) {
        return Ok(*tid);
    }
    match status::thread_state(pid) {
        // Most waits for a disk are short.
        Some('R' | 'S' | 'D') => {}
        None | Some('Z' | 'X') => return Err(MigrateError::Ended),
        Some(state) => {
            let why = format!("its state is {state}: it cannot be interrupted just now");
            return Err(MigrateError::Stays(Stay::Busy, why));
        }
    }
    if let Some((nr, args)) = status::call(pid, pid) {
        delicate_call(pid, nr, &args)?;
    }
    Ok(pid)
}

/// Whether the error means that this kernel has no Yama, so that nothing is needed.
pub fn needs_no_name(e: &MigrateError) -> bool {
    matches!(e, MigrateError::Trace(TraceError::Inside { errno, .. }) if *errno == libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn program(words: &[&str]) -> std::process::Child {
        let (name, args) = words.split_first().expect("a name");
        let mut c = Command::new(name);
        c.args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is here")
    }

    /// On a separate thread, as the daemon does it.
    fn named(pid: Pid, sure: fn() -> bool) -> Result<Option<(Tid, i64)>> {
        let me = std::process::id() as Pid;
        std::thread::spawn(move || name_tracer(pid, me, sure))
            .join()
            .expect("it returns")
    }

    #[test]
    fn program_names_its_tracer_and_goes_on() {
        let computes = program(&[
            "sh",
            "-c",
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo $i",
        ]);
        let pid = computes.id() as Pid;
        for _ in 0..20 {
            match named(pid, || true) {
                Ok(_) => assert!(armento_tracee::yama::scope().is_some()),
                Err(MigrateError::Ended) => break,
                Err(e) => assert!(needs_no_name(&e), "{e}"),
            }
        }
        assert_eq!(status::read(pid).map_or(0, |s| s.tracer), 0);
        let out = computes.wait_with_output().expect("it ends");
        assert!(out.status.success(), "{:?}", out.status);
        assert_eq!(out.stdout, b"200000\n");
    }

    #[test]
    fn sleeping_program_goes_on_sleeping() {
        let mut sleeps = program(&["sleep", "1"]);
        let pid = sleeps.id() as Pid;
        match named(pid, || true) {
            Ok(slept) => assert_eq!(slept, Some((pid, libc::SYS_clock_nanosleep))),
            Err(e) => assert!(needs_no_name(&e), "{e}"),
        }
        assert!(sleeps.wait().expect("it ends").success());
    }

    #[test]
    fn wrong_process_is_left_unchanged() {
        let mut sleeps = program(&["sleep", "60"]);
        let pid = sleeps.id() as Pid;
        let not = named(pid, || false);
        assert!(matches!(not, Err(MigrateError::Ended)), "{not:?}");
        assert_eq!(status::read(pid).expect("it lives").tracer, 0);
        sleeps.kill().expect("it lives");
        sleeps.wait().expect("it ends");
        assert!(matches!(named(pid, || true), Err(MigrateError::Ended)));
    }
}
