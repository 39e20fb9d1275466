//! The mm fields that the kernel keeps for an address space, and its auxiliary vector.

use crate::image::vdso::Vdso;
use crate::{Local, Result};
use armento_tracee::call::Call;
use armento_tracee::inject::Hold;
use armento_tracee::region::Code;
use armento_tracee::status;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mm {
    /// In the order of `struct prctl_mm_map`: start_code, end_code, start_data, end_data, start_brk, brk,
    /// start_stack, arg_start, arg_end, env_start, env_end.
    pub fields: [u64; 11],
    pub auxv: Vec<u8>,
    /// The vDSO pages at its home.
    pub vdso: Option<Vdso>,
}

const BRK: usize = 5;
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;

/// Everything but brk, from /proc. KERNEL: proc_pid_stat(5) fields 26–28 and 45–51. `vdso`: the one from its home, with
/// its digest.
pub fn read(pid: i32, vdso: Option<Vdso>) -> Result<Mm> {
    let f = status::stat_fields(pid).of_process("read its state")?;
    let at = |field: usize| f.get(field - 3).copied().unwrap_or(0) as u64;
    let fields = [
        at(26),
        at(27),
        at(45),
        at(46),
        at(47),
        at(47),
        at(28),
        at(48),
        at(49),
        at(50),
        at(51),
    ];
    Ok(Mm {
        fields,
        auxv: std::fs::read(format!("/proc/{pid}/auxv")).of_process("read its auxiliary vector")?,
        vdso,
    })
}

/// Reads the end of the heap by a call in the process itself.
pub fn read_brk(h: &mut Hold, code: &Code, mm: &mut Mm) -> Result<()> {
    mm.fields[BRK] = h.call(code, libc::SYS_brk, [0; 6])?.0 as u64;
    Ok(())
}

/// The call that sets them. KERNEL: prctl(2) PR_SET_MM_MAP; exe_fd −1 needs no privilege.
pub fn set_call(code: &Code, mm: &Mm) -> Call {
    let auxv_at = code.scratch(0x1000, &mm.auxv);
    let mut b: Vec<u8> = mm.fields.iter().flat_map(|v| v.to_le_bytes()).collect();
    b.extend_from_slice(&auxv_at.to_le_bytes());
    b.extend_from_slice(&(mm.auxv.len() as u32).to_le_bytes());
    b.extend_from_slice(&u32::MAX.to_le_bytes());
    let at = code.scratch(0, &b);
    (
        libc::SYS_prctl,
        [PR_SET_MM, PR_SET_MM_MAP, at, b.len() as u64, 0, 0],
    )
}
