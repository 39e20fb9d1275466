//! The threads that call.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// The process of a thread: what the kernel says is the thread.
pub fn process_of(tid: u32) -> u32 {
    status(tid, "Tgid:").map_or(tid, |v| v as u32)
}

fn status(tid: u32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(field))?.trim();
    match field {
        "Tgid:" => line.parse().ok(),
        _ => u64::from_str_radix(line, 16).ok(),
    }
}

/// Whether a thread has SIGKILL waiting.
pub fn is_killed(tid: u32) -> bool {
    const KILL: u64 = 1 << (libc::SIGKILL - 1);
    let has = |f| status(tid, f).is_some_and(|s| s & KILL != 0);
    tid != 0 && (has("SigPnd:") || has("ShdPnd:"))
}

/// Files that were told of lately.
#[derive(Default)]
pub struct Made(pub Mutex<HashMap<u32, (usize, Instant)>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_process() {
        let tid = std::thread::spawn(crate::sys::gettid)
            .join()
            .expect("it ran");
        assert_eq!(process_of(std::process::id()), std::process::id());
        assert_ne!(tid as u32, std::process::id());
        assert!(!is_killed(std::process::id()) && !is_killed(0));
    }
}
