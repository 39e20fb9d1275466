//! Maps a file of the host into a held process.

use crate::sys;
use armento_migrate::{Local, Result};
use armento_tracee::call::Call;
use armento_tracee::inject::{Hold, ok};
use armento_tracee::region::Code;
use std::fs::File;
use std::os::fd::AsRawFd;

/// For [`map_file`]: mmap of `len` bytes at `addr`.
pub fn map_call((addr, len): (u64, u64), prot: i32, flags: i32, off: u64) -> Call {
    (
        libc::SYS_mmap,
        [addr, len, prot as u64, flags as u64, 0, off],
    )
}

/// Passes `file` into the held process, makes these calls of [`map_call`] with it, closes it again. Returns their
/// results.
pub fn map_file(
    h: &mut Hold,
    code: &Code,
    (pass, file): (i32, &File),
    maps: &mut [Call],
) -> Result<Vec<i64>> {
    let fd = pass_in(h, code, pass, file)?;
    maps.iter_mut().for_each(|call| call.1[4] = fd);
    let close = (libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    let mut results = h.batch(code, &[&*maps, &[close]].concat())?;
    results.pop();
    Ok(results)
}

/// Gives the held process a descriptor of `file`; it must not keep it. Returns its number there.
pub fn pass_in(h: &mut Hold, code: &Code, pass: i32, file: &File) -> Result<u64> {
    sys::send_fd(pass, file.as_raw_fd()).local("hand a descriptor over")?;
    // struct msghdr with one byte of data and room for one descriptor.
    let control = code.scratch(0x500, &[0u8; 32]);
    let byte = code.scratch(0x520, &[0u8; 8]);
    let iov: Vec<u8> = [byte, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    let iov = code.scratch(0x530, &iov);
    let msg: Vec<u8> = [0, 0, iov, 1, control, 24, 0]
        .iter()
        .flat_map(|w: &u64| w.to_le_bytes())
        .collect();
    let msg = code.scratch(0x540, &msg);
    let got = h.call(code, libc::SYS_recvmsg, [0, msg, 0, 0, 0, 0])?.0;
    ok("recvmsg", h.tid, got)?;
    let mut raw = [0u8; 24];
    code.read_scratch(0x500, &mut raw);
    Ok(u64::from(u32::from_le_bytes(
        raw[16..20].try_into().unwrap_or_default(),
    )))
}
