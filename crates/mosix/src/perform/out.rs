//! What a command prints, and how it becomes another.

use crate::failed::Failed;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process;

/// Armento itself failed (the status that `env`, `nohup` and `timeout` use).
pub const FAILED: i32 = 125;

/// This process becomes `armento VERB WORDS`. It returns only if that fails.
pub fn become_armento(verb: &str, words: Vec<OsString>) -> Failed {
    // KERNEL: proc_pid_exe(5): the program that runs, also if its file was replaced.
    let failed = process::Command::new("/proc/self/exe")
        .arg0("armento")
        .arg(verb)
        .args(words)
        .exec();
    Failed::new(
        format!("armento {verb} cannot be started: {failed}; nothing was done"),
        "is /proc mounted?",
    )
}

/// Prints; a closed pipe ends this process silently.
pub fn say(text: &str) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
        Err(e) => Err(Failed::new(
            format!("cannot write to standard output: {e}"),
            "is its disk full?",
        )),
        Ok(()) => Ok(()),
    }
}
