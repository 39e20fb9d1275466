//! The auxiliary vector of a process.

use armento_model::Pid;
use std::collections::HashMap;

/// What the kernel told a program at its exec.
pub fn auxv(pid: Pid) -> Option<HashMap<u64, u64>> {
    let raw = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let word = |w: &[u8]| u64::from_le_bytes(w.try_into().unwrap_or_default());
    let pair = |p: &[u8]| (word(&p[..8]), word(&p[8..]));
    Some(raw.chunks_exact(16).map(pair).collect())
}
