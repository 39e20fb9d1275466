//! The only unsafe code of the command line: a command that alone reacts to the terminal's signals.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

const KEYS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Runs a command to its end. Ctrl-C and Ctrl-\ reach only the command, as with system(3).
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    // SAFETY: signal(2) with a constant disposition touches no memory of this process.
    let before = KEYS.map(|sig| unsafe { libc::signal(sig, libc::SIG_IGN) });
    let restore = move || {
        for (sig, was) in KEYS.into_iter().zip(before) {
            // SAFETY: `was` is the kernel's previous disposition of this signal; signal(2) may be called after a fork.
            unsafe { libc::signal(sig, was) };
        }
        Ok(())
    };
    // SAFETY: `restore` calls signal(2) alone and allocates nothing.
    let status = unsafe { command.pre_exec(restore) }.status();
    restore()?;
    status
}
