//! What a process registered for with membarrier(2): without it the calls of its threads say EPERM.

use crate::Result;
use armento_tracee::inject::{Call, Hold};
use armento_tracee::region::Code;

/// KERNEL: linux/membarrier.h. Since 6.3.
const QUERY: u64 = 0;
const GET_REGISTRATIONS: u64 = 1 << 9;
/// Commands that register, each with the bit by which QUERY and GET_REGISTRATIONS name it: global expedited, private
/// expedited, for code, for rseq.
const REGISTER: [u32; 4] = [1 << 2, 1 << 4, 1 << 6, 1 << 8];

/// The registrations of a held process. A kernel that cannot tell says all that it knows: one too many costs nothing but
/// time.
pub fn read(h: &mut Hold, code: &Code) -> Result<u32> {
    let ask = |command: u64| (libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]);
    let said = h.batch(code, &[ask(GET_REGISTRATIONS), ask(QUERY)])?;
    let known = said.iter().copied().find(|r| *r >= 0).unwrap_or(0) as u32;
    Ok(known & REGISTER.iter().sum::<u32>())
}

/// Calls that register a process again.
pub fn set_calls(registered: u32) -> Vec<Call> {
    let call = |c: u32| (libc::SYS_membarrier, [c.into(), 0, 0, 0, 0, 0]);
    let those = REGISTER.into_iter().filter(|c| registered & c != 0);
    those.map(call).collect()
}
