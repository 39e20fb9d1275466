//! The one thing of the command line that needs unsafe: a command that has the terminal's keys for itself.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

const KEYS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Runs a command to its end. Ctrl-C and Ctrl-\ are meant for it, as with system(3).
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    // SAFETY: signal(2) with a constant disposition touches no memory of ours.
    let before = KEYS.map(|sig| unsafe { libc::signal(sig, libc::SIG_IGN) });
    let restore = move || {
        for (sig, was) in KEYS.into_iter().zip(before) {
            // SAFETY: `was` is what the kernel had for this signal; signal(2) may be called after a fork.
            unsafe { libc::signal(sig, was) };
        }
        Ok(())
    };
    // SAFETY: `restore` calls signal(2) alone and allocates nothing.
    let status = unsafe { command.pre_exec(restore) }.status();
    restore()?;
    status
}
