//! Breakpoints that other processes set in a program's text: uprobes (perf, bpftrace, systemtap) and debuggers. On
//! another node nothing would handle them, and SIGTRAP would end the program.
//!
//! From: the first examination of a process (`keeper/src/moves/eligibility.rs`). Next: nothing: such a process stays.

use super::files;
use armento_tracee::PAGE;
use armento_tracee::maps::Vma;
use armento_tracee::pages::{Backing, Pagemap};
use armento_tracee::sys;
use std::os::unix::fs::FileExt;

/// KERNEL: the instruction int3, UPROBE_SWBP_INSN.
const INT3: u8 = 0xcc;
/// Pages of one mapping that are compared; a program with more modified text pages modified them itself.
const PAGES_MAX: usize = 1024;

/// Whether the text of `v`, which has pages of its own, has a breakpoint where its file has none. KERNEL: a uprobe's
/// page is a private copy (uprobe_write_opcode).
pub fn set_in(pid: i32, v: &Vma) -> bool {
    let runs = Pagemap::open(pid).and_then(|map| map.held((v.start, v.end), Backing::File));
    let Some(file) = files::open_mapped(pid, v).and_then(|f| files::readable(&f).ok()) else {
        // Nothing to compare with: the file is gone.
        return false;
    };
    let runs = runs.map(|held| held.all()).unwrap_or_default();
    let mut pages = runs
        .iter()
        .flat_map(|(start, end)| (*start..*end).step_by(PAGE as usize))
        .take(PAGES_MAX);
    pages.any(|at| {
        let (mut has, mut had) = ([0; PAGE as usize], [0; PAGE as usize]);
        let got = sys::vm_read(pid, at, &mut has).unwrap_or(0);
        let from = v.off + (at - v.start);
        let of_file = file.read_at(&mut had, from).unwrap_or(0);
        differs(&has[..got.min(of_file)], &had)
    })
}

fn differs(has: &[u8], had: &[u8]) -> bool {
    let mut bytes = has.iter().zip(had);
    bytes.any(|(now, before)| *now == INT3 && *before != INT3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoint_counts_only_if_the_file_has_none() {
        assert!(differs(&[0x90, INT3], &[0x90, 0x90]));
        assert!(!differs(&[0x90, INT3], &[0x55, INT3]));
        assert!(!differs(&[], &[0x90]));
    }
}
