//! The table for x86-64, divided into families, and its index.
//!
//! KERNEL: arch/x86/entry/syscalls/syscall_64.tbl, Linux 6.18.

mod command;
mod events;
mod files;
mod files_io;
mod ipc;
mod memory;
pub mod nr;
mod process;
mod signals;
mod sockets;
pub(crate) mod sub;
mod sub_ioctl;
mod system;

use crate::Row;

/// Numbers at or above this have no row.
pub const NR_LIMIT: usize = 480;

/// Numbers with this bit belong to the x32 ABI. KERNEL: __X32_SYSCALL_BIT.
pub(crate) const X32_BIT: u32 = 0x4000_0000;

/// KERNEL: AUDIT_ARCH_X86_64, linux/audit.h.
pub(crate) const AUDIT_ARCH: u32 = 0xc000_003e;

const FAMILIES: &[&[Row]] = &[
    files::ROWS,
    files_io::ROWS,
    sockets::ROWS,
    events::ROWS,
    memory::ROWS,
    process::ROWS,
    signals::ROWS,
    ipc::ROWS,
    system::ROWS,
];

static INDEX: [Option<&Row>; NR_LIMIT] = index();

/// Built at compile time, so that a number with two rows does not compile.
const fn index() -> [Option<&'static Row>; NR_LIMIT] {
    let mut index: [Option<&'static Row>; NR_LIMIT] = [None; NR_LIMIT];
    let mut family = 0;
    while family < FAMILIES.len() {
        let rows = FAMILIES[family];
        let mut i = 0;
        while i < rows.len() {
            let nr = rows[i].nr as usize;
            assert!(index[nr].is_none(), "a system call has two rows");
            index[nr] = Some(&rows[i]);
            i += 1;
        }
        family += 1;
    }
    index
}

/// The row of a call. `None`: unknown, so the process comes home.
pub fn row(nr: u64) -> Option<&'static Row> {
    *INDEX.get(usize::try_from(nr).ok()?)?
}

/// Every row by number, for the manual and `doctor --calls`.
pub fn describe() -> impl Iterator<Item = &'static Row> {
    INDEX.iter().flatten().copied()
}
