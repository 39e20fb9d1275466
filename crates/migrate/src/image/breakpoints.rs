//! Breakpoints in a program's text that others set: uprobes (perf, bpftrace, systemtap) and debuggers. Away nothing
//! would answer them, and the program would end by SIGTRAP.
//!
//! From: the first look at a process (`keeper/src/moves/eligibility.rs`). Next: nothing: such a process stays.

use super::files;
use armento_tracee::PAGE;
use armento_tracee::maps::Vma;
use armento_tracee::pages::{Backing, Pagemap};
use armento_tracee::sys;
use std::os::unix::fs::FileExt;

/// KERNEL: the instruction int3, UPROBE_SWBP_INSN.
const INT3: u8 = 0xcc;
/// Pages of one mapping that are compared; a program that has patched more of its text did so itself.
const PAGES_MAX: usize = 1024;

/// Does the text of `v`, which has pages of its own, have a breakpoint where its file has none?
/// KERNEL: a uprobe's page is a copy that the process has by itself (uprobe_write_opcode).
pub fn set_in(pid: i32, v: &Vma) -> bool {
    let runs = Pagemap::open(pid).and_then(|map| map.held((v.start, v.end), Backing::File));
    let Some(file) = files::open_mapped(pid, v).and_then(|f| files::readable(&f).ok()) else {
        // Nothing to compare with: a file that is gone.
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
    fn only_a_breakpoint_that_the_file_does_not_have_counts() {
        assert!(differs(&[0x90, INT3], &[0x90, 0x90]));
        assert!(!differs(&[0x90, INT3], &[0x55, INT3]));
        assert!(!differs(&[], &[0x90]));
    }
}
