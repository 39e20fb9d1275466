//! Whether this keeper may trace a process of its tree. Where Yama forbids it, the daemon (root) helps.
//!
//! From: `keeper/src/launch/start.rs` (the program allows it), `eligibility.rs` (before anything of a process that leaves
//! is touched). Next: `noded/src/work/yama.rs`.

use crate::state::Keep;
use armento_client::api::{Answer, Ask};
use armento_client::{AskError, Session};
use armento_migrate::stop_threads::cannot_be_traced;
use armento_migrate::{MigrateError, Result};
use armento_model::{Pid, Stay};
use armento_tracee::status;
use armento_tracee::yama::{may_attach, scope, why};
use std::time::Duration;

/// The daemon stops a thread of the process for some microseconds; other keepers may be before us.
const ASKED_MAX: Duration = Duration::from_secs(10);
/// It only writes it down.
const AGREED_MAX: Duration = Duration::from_secs(5);

/// Called by the program that is not yet the user's: its keeper may trace it and what it will start.
pub fn allow_keeper(keeper: Pid) {
    if scope() != Some(1) {
        return;
    }
    // Without it what it starts stays home, and `why` says so.
    if let Ok(mut s) = Session::connect() {
        let _ = s.ask(Ask::AllowKeeper { keeper }, AGREED_MAX);
    }
}

/// Makes sure that we may trace `pid`. Not from the tracer thread: the daemon is asked.
pub fn ensure(keep: &Keep, pid: Pid) -> Result<()> {
    if !matches!(scope(), Some(1..)) || allowed(pid)? {
        return Ok(());
    }
    if scope() == Some(1) {
        match keep.daemon.ask(Ask::LetTrace { pid }, ASKED_MAX) {
            Ok(Answer::Named { slept }) if allowed(pid)? => {
                if let Some((tid, nr)) = slept {
                    keep.tracer.run(move |t| t.restart_blocks.insert(tid, nr));
                }
                return Ok(());
            }
            Ok(_) => {}
            Err(AskError::Refused(no)) => return Err(refused(&no)),
            Err(_) => {
                let silent = format!("{}; the daemon does not answer", why(Some(1)));
                return Err(MigrateError::Stays(Stay::NotPermitted, silent));
            }
        }
    }
    let tracer = status::read(pid).map_or(0, |s| s.tracer);
    Err(cannot_be_traced(tracer))
}

fn allowed(pid: Pid) -> Result<bool> {
    match may_attach(pid) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => Ok(false),
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Err(MigrateError::Ended),
        // Any other error is met, and reported, by the next step.
        Err(_) => Ok(true),
    }
}

fn refused(no: &armento_client::api::Refusal) -> MigrateError {
    match Stay::from_code(&no.code) {
        Some(stay) => MigrateError::Stays(stay, no.detail().to_owned()),
        // An older daemon does not know the question.
        None => MigrateError::Stays(
            Stay::NotPermitted,
            format!("{}; {}", why(Some(1)), no.message),
        ),
    }
}
