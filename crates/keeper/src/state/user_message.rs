//! What the user is told where the program itself would complain.

use armento_model::Pid;
use armento_tracee::sys;

/// A line where the program itself would complain.
pub fn tell_user(pid: Pid, line: &str) {
    eprint!("{line}");
    if let Ok(fd) = sys::steal_fd(pid, 2) {
        // Only what goes at once: a full pipe must not keep us.
        crate::sys::write_now(&fd, line.as_bytes());
    }
}
