//! `armento run`: forks the keeper, then the program is exec'd in its own pid.
//!
//! From: `cli/src/run.rs`. Next: `keeper.rs`, then `keeper/src/events/exec.rs` (the exec stop).

use super::keeper::{HELD, NOT_KEPT, keeper};
use super::options::{Begin, Birth, BirthError};
use crate::cpu_features::VARIABLE;
use crate::moves::allow_keeper;
use crate::sys;
use armento_client::api::Refusal;
use armento_client::{AskError, Session};
use armento_model::Pid;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const WHY_MAX: u64 = 4096;

/// Runs the program. Returns only when nothing could be started. Whether there is a daemon the keeper finds out.
pub fn run(b: &Birth) -> BirthError {
    with_keeper(b, || run_native(b)).unwrap_or_else(BirthError::Io)
}

/// Begins from a checkpoint file: `assemble` makes this process the root of its tree. Returns only when nothing could be
/// started.
pub fn restart(b: &Birth, assemble: impl FnOnce() -> BirthError) -> BirthError {
    with_keeper(b, assemble).unwrap_or_else(BirthError::Io)
}

/// Runs the program without a keeper, as any shell would.
pub fn run_native(b: &Birth) -> BirthError {
    let tunables = b.portable.as_ref().map(|p| (VARIABLE, p.tunables.as_str()));
    BirthError::Exec(name(b), sys::exec(&b.command, tunables))
}

fn name(b: &Birth) -> String {
    b.command
        .first()
        .map_or_else(String::new, |c| c.to_string_lossy().into_owned())
}

fn with_keeper(b: &Birth, begin: impl FnOnce() -> BirthError) -> std::io::Result<BirthError> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let program = std::process::id() as Pid;
    match sys::fork_keeper()? {
        sys::Side::Keeper => {
            drop(ours);
            keeper(b.clone(), program, theirs);
            std::process::exit(0);
        }
        sys::Side::Program(keeper) => {
            drop(theirs);
            sys::allow_tracer(keeper);
            ours.write_all(b"t")?;
            // The keeper has seized us, or could not: the program runs either way.
            let mut said = [0u8; 1];
            let _ = ours.read(&mut said);
            if said == NOT_KEPT {
                return Ok(not_kept(ours));
            }
            if said == *b"k" {
                allow_keeper(keeper);
            }
            if b.restart.is_some() && said != *b"k" && said != HELD {
                return Err(std::io::Error::other("the keeper did not start"));
            }
            if said == HELD && b.restart.is_some() {
                return Err(std::io::Error::other(
                    "this is a program of another `armento run` already: start it from outside",
                ));
            }
            if said == HELD && b.is_special() {
                eprintln!(
                    "armento: this is a program of another `armento run` already: it runs as that one was told\n\
                     hint: move it with `armento migrate`, or start it from outside"
                );
            }
            Ok(begin())
        }
    }
}

/// Forks a keeper for a process that was not started by `run` (`armento migrate PID`).
/// Returns when the keeper serves it, or another does.
pub fn adopt(pid: Pid, command: String) -> Result<(), BirthError> {
    drop(Session::connect().map_err(BirthError::NoDaemon)?);
    let (mut ours, theirs) = UnixStream::pair()?;
    let b = Birth {
        command: vec![command.into()],
        on: None,
        stay: false,
        begin: Begin::Here,
        spread: false,
        portable: None,
        hint: None,
        restart: None,
        storm: None,
        seed: None,
        safe: None,
        forward_files: false,
        direct_sockets: true,
    };
    match sys::fork_keeper()? {
        sys::Side::Keeper => {
            drop(ours);
            keeper(b, pid, theirs);
            std::process::exit(0);
        }
        sys::Side::Program(_) => {
            drop(theirs);
            ours.write_all(b"a")?;
            let mut b = [0u8; 1];
            match ours.read(&mut b) {
                Ok(1) if b == NOT_KEPT => Err(not_kept(ours)),
                Ok(1) => Ok(()),
                _ => Err(BirthError::Io(std::io::Error::other(
                    "the keeper did not start",
                ))),
            }
        }
    }
}

/// Why the keeper could not say hello: the daemon does not want it, or is another version's.
fn not_kept(door: UnixStream) -> BirthError {
    let mut why = String::new();
    let _ = door.take(WHY_MAX).read_to_string(&mut why);
    let (message, hint) = why.split_once('\0').unwrap_or((&why, ""));
    BirthError::NoDaemon(AskError::Refused(Refusal {
        code: "not-kept".into(),
        message: message.into(),
        hint: hint.into(),
    }))
}
